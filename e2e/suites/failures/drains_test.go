package failures

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// attachedVolume: a volume that is never detached keeps the instance from being stopped; once it is
// gone the node stops.
func attachedVolume(t *testing.T, r *framework.Rig) {
	pool(t, r, "volumes", "m5.xlarge", 1, emptiesAtOnce, drainsBriefly)
	node := assert.OnlyNode(t, r, "volumes")
	pod := podOn("volumes-1", "volumes")
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
	left := framework.Attachment("left-behind", node.Name)
	assert.Create(t, r, left)
	nodes := assert.PoolNodes(t, r, "volumes")
	assert.Remove(t, r, pod)
	assert.AwaitEvent(t, r, node, v1alpha1.ReasonDrainFailed, "held up by volume attachment left-behind")
	if calls := assert.CallsAbout(t, r, fake.OpStop, nodes); len(calls) != 0 {
		t.Errorf("the instance was stopped with a volume attached: %v", calls)
	}
	assert.Remove(t, r, left)
	assert.AwaitStandby(t, r, "volumes", 1)
}

// disruptionBudget: a drain for a replacement that a budget blocks goes back to running, with the
// pod untouched.
func disruptionBudget(t *testing.T, r *framework.Rig) {
	pool(t, r, "budget", "m6i.xlarge", 1, drainsBriefly)
	pod := podOn("budget-1", "budget")
	pod.Labels = map[string]string{"app": "guarded"}
	budget := framework.Budget("guarded", pod.Labels)
	assert.Create(t, r, budget, pod)
	name := assert.AwaitBound(t, r, pod)[0]
	assert.AwaitRunning(t, r, pod)
	nodes := assert.PoolNodes(t, r, "budget")
	// As a replacement for drift begins.
	assert.Change(t, r, assert.Node(name), func(n *corev1.Node) {
		n.Labels[v1alpha1.LabelState] = string(v1alpha1.StateTerminating)
		n.Annotations[v1alpha1.AnnotationStopReason] = string(v1alpha1.StopDrift)
		n.Annotations[v1alpha1.AnnotationStoppingSince] = time.Now().UTC().Format(time.RFC3339Nano)
		n.Annotations[v1alpha1.AnnotationCordoned] = "true"
		n.Spec.Unschedulable = true
	})
	assert.AwaitEvent(t, r, nodes[name], v1alpha1.ReasonDrainFailed, "cannot be evicted now")
	n := assert.AwaitState(t, r, name, v1alpha1.StateRunning)
	if n.Spec.Unschedulable {
		t.Error("the node runs and is cordoned")
	}
	assert.AwaitEvent(t, r, nodes[name], v1alpha1.ReasonDrainFailed, "back to running; held up by pod default/budget-1")
	assert.MustLive(t, r, pod, name)
	for _, op := range []fake.Op{fake.OpStop, fake.OpTerminate} {
		if calls := assert.CallsAbout(t, r, op, nodes); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	}
}
