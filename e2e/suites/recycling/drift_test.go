package recycling

import (
	"strings"
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
	busy := occupy(t, r, pool, pod)
	awaitPool(t, r, pool, "three standby again", func(nodes map[string]*corev1.Node) bool {
		return in(nodes,
			v1alpha1.StateStandby) == 3
	})
	before := assert.PoolNodes(t, r, pool)
	changed := change(t, r, pool, func(s *v1alpha1.NodePoolSpec) { s.Template.Labels[label] = "b" })

	awaitPool(t, r, pool, "three standby nodes of the new template", func(nodes map[string]*corev1.Node) bool {
		renewed := 0
		for _, n := range nodes {
			if assert.StateOf(n) == v1alpha1.StateStandby && n.Labels[label] == "b" {
				renewed++
			}
		}
		return renewed == 3
	})
	words := assert.AwaitEvent(t, r, before[busy], v1alpha1.ReasonDrifted)
	if !strings.Contains(words, "spec.template") {
		t.Errorf("event %s: %q does not say what has changed", v1alpha1.ReasonDrifted, words)
	}
	if n := assert.PoolNodes(t, r, pool)[busy]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Fatalf("node %s with its pod is %v, want running as it was", busy, n)
	}
	if got := assert.PodNow(t, r, pod); got.DeletionTimestamp != nil || got.Status.Phase != corev1.PodRunning {
		t.Fatalf("pod %s is %s", pod.Name, got.Status.Phase)
	}
	assert.Remove(t, r, pod)
	awaitGone(t, r, busy)

	checkBounds(t, history(j, pool, changed), 1, 2)
	checkSize(t, r, pool, 4)
	if ends := terminated(t, r, before); len(ends) != 4 || ends[3] != assert.InstanceOf(before[busy]) {
		t.Errorf("terminations %+v, want one of each of four, the running one's last", ends)
	}
}
