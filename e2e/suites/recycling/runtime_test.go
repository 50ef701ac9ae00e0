package recycling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
)

// maxNodeRuntime: two nodes have run too long. The pod on one is not to be disrupted, so that node
// stays. The other is drained, which waits for the disruption budget of its pod, and only then
// terminated and replaced.
func maxNodeRuntime(t *testing.T, r *framework.Rig, _ *assert.Journal) {
	const pool = "runtime"
	p := newPool(pool, 3, 1)
	limit := intstr.FromString("1h")
	p.Spec.MaxNodeRuntime = &limit
	warm(t, r, p)
	budget := framework.Budget("guard", map[string]string{"guarded": "yes"})
	assert.Create(t, r, budget)
	precious, guarded := bigPod("precious"), bigPod("guarded")
	precious.Annotations = map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true"}
	guarded.Labels = map[string]string{"guarded": "yes"}
	kept, worn := assert.Serve(t, r, framework.OnPool(precious, pool)), assert.Serve(t, r, framework.OnPool(guarded, pool))
	nodes := assert.PoolNodes(t, r, pool)
	ranSince(t, r, kept, 3*time.Hour) // first, so that a reader who sees the other sees this one too
	ranSince(t, r, worn, 2*time.Hour)

	assert.AwaitNode(t, r, worn, "terminating", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateTerminating &&
			n.Annotations[v1alpha1.AnnotationStopReason] == string(v1alpha1.StopRuntime)
	})
	assert.AwaitEvent(t, r, nodes[worn], v1alpha1.ReasonRecycled)
	assert.AwaitEvent(t, r, nodes[worn], v1alpha1.ReasonDrainFailed)
	if got := assert.Now(t, r, guarded); got.DeletionTimestamp != nil {
		t.Fatal("the pod was deleted in spite of its disruption budget")
	}
	if state := assert.InstanceState(t, r, assert.InstanceOf(nodes[worn])); state != provider.InstanceRunning {
		t.Fatalf("the instance is %s under its pod", state)
	}
	assert.Remove(t, r, budget)
	assert.AwaitGone(t, r, assert.Node(worn))
	assert.AwaitNodes(t, r, pool, "one standby, one running", func(now map[string]*corev1.Node) bool {
		return assert.In(now, v1alpha1.StateStandby) == 1 && assert.In(now, v1alpha1.StateRunning) == 1
	})
	if n := assert.PoolNodes(t, r, pool)[kept]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Errorf("node %s, whose pod is not to be disrupted, is %v", kept, n)
	}
	if ends := terminated(t, r, nodes); len(ends) != 1 || ends[0] != assert.InstanceOf(nodes[worn]) {
		t.Errorf("terminations %+v, want one, of %s", ends, worn)
	}
}

// terminationGracePeriod: the drain is bounded. The disruption budget never allows an eviction, and
// the pod is deleted all the same.
func terminationGracePeriod(t *testing.T, r *framework.Rig, _ *assert.Journal) {
	const pool = "bounded"
	p := newPool(pool, 2, 0)
	limit := intstr.FromString("1h")
	p.Spec.MaxNodeRuntime, p.Spec.MinStandby = &limit, 1
	p.Spec.Disruption.TerminationGracePeriod = &metav1.Duration{Duration: time.Second}
	warm(t, r, p)
	assert.Create(t, r, framework.Budget("bound-guard", map[string]string{"bounded": "yes"}))
	guarded := bigPod("bounded")
	guarded.Labels = map[string]string{"bounded": "yes"}
	worn := assert.Serve(t, r, framework.OnPool(guarded, pool))
	ranSince(t, r, worn, 2*time.Hour)
	assert.AwaitGone(t, r, assert.Node(worn))
}
