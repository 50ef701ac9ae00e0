package exactstarts

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestExactStartsBesideDaemonSets: an agent of 100m comes with each start, or once the node is
// open. A pod that has no room in addition to it stays pending, and starts nothing.
func TestExactStartsBesideDaemonSets(t *testing.T) {
	r := sharedRig(t)
	for name, row := range map[string]struct {
		row
		agent *appsv1.DaemonSet
	}{
		"with the affinity of the docs": {
			row{[]pool{{four, 6, 10}}, pods(4, "cpu", "2"), 4, "beside 100m there is room for one pod of 2 cpu"},
			agent(offStandby),
		},
		"one that does not tolerate that a node stands by": {
			row{[]pool{{four, 6, 10}}, pods(4, "cpu", "2"), 4, "beside 100m there is room for one pod of 2 cpu"}, agent(),
		},
		"two pods to a node": {
			row{[]pool{{four, 4, 10}}, pods(4, "cpu", "1950m"), 2, "100m and twice 1950m are 4 cpu"}, agent(offStandby),
		},
		"a host port that the agent takes": {
			row{[]pool{{four, 4, 10}}, pods(8, "cpu", "1950m"), 4, "100m and twice 1950m are 4 cpu"},
			agent(offStandby, func(s *corev1.PodSpec) {
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
			}),
		},
		"places": {
			row{[]pool{{few, 4, 10}}, pods(8, "cpu", "10m"), 2, "a node takes 5 pods, one of them the agent's"}, agent(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			create(t, r, row.agent) // first, so that its image is part of the warm-up
			warm(t, r, row.pools)
			defer func() {
				if err := r.Client.Delete(t.Context(), row.agent); err != nil {
					t.Error(err)
				}
				tidy(t, r, row.row)
			}()
			before := len(starts(t, r))
			never := each(named("never", pods(1, "cpu", "3950m")), hostPort)
			assert.Create(t, r, never[0])
			burst(t, r, row.row.pods)
			if n := len(starts(t, r)) - before; n != row.need {
				t.Errorf("%d nodes were started, want %d: %s", n, row.need, row.why)
			}
			promisedOnce(t, r, row.row.pods)
		})
	}
}

// agent is a DaemonSet of 100m.
func agent(change ...func(*corev1.PodSpec)) *appsv1.DaemonSet {
	spec := framework.Pod("agent", "cpu", "100m").Spec // its scheduler is the only one of this rig
	spec.Containers[0].Image = "registry.example/agent:1"
	for _, f := range change {
		f(&spec)
	}
	return framework.DaemonSet("agent", spec)
}

// offStandby tolerates everything and has the affinity of docs/operate.md.
func offStandby(spec *corev1.PodSpec) {
	spec.Tolerations, spec.Affinity = framework.TolerateAll(), framework.NotOnStandby()
}
