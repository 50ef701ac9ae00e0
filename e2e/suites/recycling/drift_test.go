package recycling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// driftReplacesStandbyNodesFirst changes a label of the template of a full pool, three of whose
// nodes are standby while one runs a pod.
func driftReplacesStandbyNodesFirst(t *testing.T, r *framework.Rig, j *assert.Journal) {
	const pool, label = "drift", "team"
	p := newPool(pool, 4, 3)
	p.Spec.Template.Labels = map[string]v1alpha1.LabelValue{label: "a"}
	warm(t, r, p)
	pod := bigPod("busy")
	busy := assert.Serve(t, r, framework.OnPool(pod, pool))
	assert.AwaitNodes(t, r, pool, "three standby again", func(nodes map[string]*corev1.Node) bool {
		return assert.In(nodes, v1alpha1.StateStandby) == 3
	})
	before := assert.PoolNodes(t, r, pool)
	changed := revisionOf(assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) { s.Template.Labels[label] = "b" }))

	assert.AwaitNodes(t, r, pool, "three standby nodes of the new template", func(nodes map[string]*corev1.Node) bool {
		renewed := 0
		for _, n := range nodes {
			if assert.StateOf(n) == v1alpha1.StateStandby && n.Labels[label] == "b" {
				renewed++
			}
		}
		return renewed == 3
	})
	assert.AwaitEvent(t, r, before[busy], v1alpha1.ReasonDrifted, "spec.template")
	if n := assert.PoolNodes(t, r, pool)[busy]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Fatalf("node %s with its pod is %v, want running as it was", busy, n)
	}
	assert.MustRun(t, r, pod)
	assert.Remove(t, r, pod)
	assert.AwaitGone(t, r, assert.Node(busy))

	checkBounds(t, history(j, pool, changed), 1, 2)
	checkSize(t, r, pool, 4)
	if ends := terminated(t, r, before); len(ends) != 4 || ends[3] != assert.InstanceOf(before[busy]) {
		t.Errorf("terminations %+v, want one of each of four, the running one's last", ends)
	}
}
