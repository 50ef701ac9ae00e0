package start

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/extender/decide"
)

// TestStartsAreCountedByWhatAskedForThem: by the extender's answer to a scheduler, or by Stratos's
// own look at pending pods.
func TestStartsAreCountedByWhatAskedForThem(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(*placerRig)
		want []string
	}{
		"a scheduler asked the extender": {
			func(r *placerRig) {
				r.promise("x")
				r.starter.StartNode("c")
			}, []string{"p filter"},
		},
		"Stratos placed a pod of another scheduler": {
			func(r *placerRig) { r.placer.Place(waiter("x")) }, []string{"p pending"},
		},
		"the claim moved": {
			func(r *placerRig) { r.placer.Reschedule([]decide.Claim{{Pod: "x"}}) }, []string{"p pending"},
		},
		"the extender asked first": {
			func(r *placerRig) {
				r.promise("x")
				r.starter.StartNode("c")
				r.placer.Place(waiter("x"))
			}, []string{"p filter"},
		},
		"a pod is bound to the node": {
			func(r *placerRig) {
				if err := r.starter.StartBound(r.t.Context(), r.node()); err != nil {
					r.t.Error(err)
				}
			}, []string{"p pending"},
		},
	} {
		for failures := range 2 {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newPlacerRig(t, ofOneCPU("c"))
					r.view.SetPod(waiter("x"))
					var calls atomic.Int32
					r.answer = func(n int) error {
						if n <= failures {
							return errors.New("the network is down")
						}
						return nil
					}
					r.patching = func() error {
						if calls.Add(1) <= int32(failures) && name != "a pod is bound to the node" { //nolint:gosec // 0 or 1
							return errors.New("the API server is down")
						}
						return nil
					}
					r.runBoth(func() {
						c.ask(r)
						<-time.After(time.Minute)
					})
					if !slices.Equal(r.counted, c.want) {
						t.Errorf("counted %q after %d failures, want %q", r.counted, failures, c.want)
					}
				})
			})
		}
	}
}
