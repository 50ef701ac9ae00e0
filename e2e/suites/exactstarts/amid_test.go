package exactstarts

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestExactStartsAmidDisturbances: what happens in the middle of a burst makes it no dearer.
func TestExactStartsAmidDisturbances(t *testing.T) {
	r := sharedRig(t)
	for name, row := range map[string]struct {
		row
		amid  func(*testing.T, *framework.Rig)
		later []*corev1.Pod
	}{
		"deletions": {
			row{[]pool{{four, 11, 10}}, pods(8, "cpu", "2500m"), 8,
				"4 cpu hold one pod of 2.5, and the later pods take the room of the deleted ones"},
			deleteHalf, named("later", pods(4, "cpu", "2500m")),
		},
		"a relist": {
			row{[]pool{{four, 11, 10}}, pods(4, "cpu", "2500m"), 8, "4 cpu hold one pod of 2.5"},
			relist, named("later", pods(4, "cpu", "2500m")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			warm(t, r, row.pools)
			defer tidy(t, r, row.row)
			before := len(starts(t, r))
			r.Recorder.Reset()
			create(t, r, assert.Objects(row.row.pods)...)
			assert.AwaitClaims(t, r, row.row.pods...)
			row.amid(t, r)
			create(t, r, assert.Objects(row.later)...)
			awaitBound(t, r, slices.Concat(present(t, r, row.row.pods), row.later))
			if n := len(starts(t, r)) - before; n != row.need {
				t.Errorf("%d nodes were started, want %d: %s", n, row.need, row.why)
			}
		})
	}
}

// deleteHalf deletes every other pod of the burst, at once.
func deleteHalf(t *testing.T, r *framework.Rig) {
	for i := 0; i < 8; i += 2 {
		pod := framework.Pod(fmt.Sprintf("pod-%04d", i))
		if err := r.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// relist ends the API server with all its watches. The next one knows no earlier version of
// anything, so a watch that is behind begins with a list.
func relist(t *testing.T, r *framework.Rig) {
	if err := errors.Join(r.ControlPlane.StopAPIServer(), r.ControlPlane.StartAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// present are those of the pods that were not deleted.
func present(t *testing.T, r *framework.Rig, pods []*corev1.Pod) []*corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := r.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(list.Items, func(here corev1.Pod) bool { return here.Name == p.Name })
	})
}
