package karpenter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// The examples of the second recipe.
const (
	sharedPool = "NodePool.stratos.sh/shared"
	either     = "Deployment.apps/either"
	tooLarge   = "Deployment.apps/too-large"
)

// nominatedPods plays a burst that both autoscalers may serve. Karpenter, which has no other reason
// to pass the pods over than their nominations, launches a node for a pod that fits no pool.
func nominatedPods(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	// Karpenter's node has room to spare, and a pod is bound to whatever node has some before its own
	// has started. So that node does not register here.
	c := newCluster(t, page, time.Hour)
	assert.Create(t, c.Rig, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "stratos"},
		PreemptionPolicy: new(corev1.PreemptNever)})
	c.warm(t, page.take(t, "AWSNodeClass.stratos.sh/standby"), page.take(t, sharedPool))
	assert.HoldStarts(t, c.Rig, instanceType, 0)
	burst := page.take(t, either)
	assert.Create(t, c.Rig, burst)
	ours := c.pods(t, burst)
	for _, p := range ours {
		assert.AwaitObject(t, c.Rig, p, "nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" })
	}
	// Karpenter plans for all pods that it takes at once, so by its node for this one it has seen the
	// others.
	large := page.take(t, tooLarge)
	assert.Create(t, c.Rig, large)
	theirs := c.pods(t, large)
	assert.AwaitEventBy(t, c.Rig, karpenter, theirs[0], nominated, "nodeclaim/general-")
	if n := c.nodeClaims(t); n != 1 {
		t.Errorf("Karpenter created %d NodeClaims, want the one for the pod that fits no pool", n)
	}
	assert.Release(t, c.Rig, assert.Starts(t, c.Rig)...)
	assert.AwaitBound(t, c.Rig, ours...)
	c.mustRunOnStratosNodes(t, ours)
	if n := c.nodeClaims(t); n != 1 {
		t.Errorf("Karpenter created %d NodeClaims after all, want one", n)
	}
}
