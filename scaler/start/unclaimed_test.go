package start

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAStartThatNobodyWantsAnyMore: a node whose claims all end between the intent and the call
// returns to standby, at once and without a strike.
func TestAStartThatNobodyWantsAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*rig)
		want []string
	}{
		"the only pod is gone": {func(r *rig) { r.view.DeletePod(waiter("a")) },
			[]string{"patch c starting claims a", "patch c standby claims "}},
		"another pod waits on": {func(*rig) {}, []string{"patch c starting claims a", "start i-c"}},
		"another replica has named a pod since": {func(r *rig) {
			r.view.DeletePod(waiter("a"))
			n := r.node()
			n.Annotations[v1alpha1.AnnotationClaims] = "a,b"
			if err := r.api.Update(r.t.Context(), n); err != nil {
				r.t.Error(err)
			}
		}, []string{"patch c starting claims a", "start i-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("a")
				r.starter.StartNode("c")
				r.starter.Step(t.Context()) // the intent
				c.then(r)
				r.run(func() { <-time.After(time.Minute) })
				r.want(c.want...)
				if _, backsOff := r.node().Annotations[v1alpha1.AnnotationUnavailableUntil]; backsOff {
					t.Error("the node backs off")
				}
			})
		})
	}
}
