package v1alpha1_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestRolesOfANode: the role follows the state, from each state to each other one, and what others
// wrote stays.
func TestRolesOfANode(t *testing.T) {
	others := map[string]string{"node-role.kubernetes.io/worker": "", v1alpha1.LabelPool: "p"}
	states := []v1alpha1.NodeState{v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting,
		v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating}
	for _, from := range states {
		for _, to := range states {
			labels, want := maps.Clone(others), maps.Clone(others)
			v1alpha1.SetState(labels, from)
			v1alpha1.SetState(labels, to)
			want[v1alpha1.LabelState] = string(to)
			if to != v1alpha1.StateRunning {
				want["node-role.kubernetes.io/"+string(to)] = ""
			}
			if diff := cmp.Diff(want, labels); diff != "" {
				t.Errorf("from %s to %s (-want +got):\n%s", from, to, diff)
			}
		}
	}
}
