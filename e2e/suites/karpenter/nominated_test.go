package karpenter

import (
	"flag"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// The examples of the second recipe.
const (
	sharedPool = "NodePool.stratos.sh/shared"
	either     = "Deployment.apps/either"
	tooLarge   = "Deployment.apps/too-large"
)

// TestMain adds the flags.
func TestMain(m *testing.M) {
	flag.Int("bursts", 1, "bursts of pods that either autoscaler may serve")
	flag.Int64("replicas", 6, "pods of such a burst; every three of them fill a node")
	flag.Duration("boot", 0, "how long the nodes of such a burst stay away at least")
	flag.Parse()
	os.Exit(m.Run())
}

// nominatedPods plays bursts that both autoscalers may serve. Karpenter, which has no other reason
// to pass the pods over than their nominations, launches a node for a pod that fits no pool.
func nominatedPods(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	// Karpenter's node has room to spare, and a pod is bound to whatever node has some before its own
	// has started. So that node does not register here.
	c := newCluster(t, page, time.Hour)
	assert.Create(t, c.Rig, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "stratos"},
		PreemptionPolicy: new(corev1.PreemptNever)})
	bursts, replicas := assert.Flag[int](t, "bursts"), assert.Flag[int64](t, "replicas")
	nodes := (replicas + 2) / 3
	pool := page.take(t, sharedPool, set(nodes, "spec", "minStandby"), set(max(nodes, 4), "spec", "poolSize"))
	if bursts > 1 {
		set("1s", "spec", "scaleDown", "emptyNodeTTL")(pool)
		set(int64(bursts)*nodes, "spec", "scaleUp", "startBudget")(pool)
	}
	c.warm(t, page.take(t, "AWSNodeClass.stratos.sh/standby"), pool)
	for burst := range bursts - 1 {
		c.serve(t, burst, nil)
		if n := c.nodeClaims(t); n != 0 {
			t.Errorf("burst %d: Karpenter created %d NodeClaims for nominated pods", burst, n)
		}
		assert.Remove(t, c.Rig, page.take(t, either))
		assert.AwaitPool(t, c.Rig, pool.GetName(), "all of its nodes in standby",
			func(s v1alpha1.NodePoolStatus) bool { return int64(s.Standby) >= nodes })
	}
	c.serve(t, bursts-1, page.take(t, tooLarge))
	if n := c.nodeClaims(t); n != 1 {
		t.Errorf("Karpenter created %d NodeClaims, want the one for the pod that fits no pool", n)
	}
}

// serve plays one burst, whose nodes stay away until the pods are nominated and Karpenter has
// served the Deployment that fits no pool, if there is one.
func (c *cluster) serve(t *testing.T, number int, large *unstructured.Unstructured) {
	t.Helper()
	before := len(assert.Starts(t, c.Rig))
	assert.HoldStarts(t, c.Rig, instanceType, 0)
	burst := c.page.take(t, either, set(assert.Flag[int64](t, "replicas"), "spec", "replicas"))
	assert.Create(t, c.Rig, burst)
	ours := c.pods(t, burst)
	for _, p := range ours {
		assert.AwaitObject(t, c.Rig, p, "nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" })
	}
	if large != nil {
		// Karpenter plans for all pods that it takes at once, so by its node for this one it has seen the
		// others.
		assert.Create(t, c.Rig, large)
		assert.AwaitEventBy(t, c.Rig, karpenter, c.pods(t, large)[0], nominated, "nodeclaim/general-")
		if n := c.nodeClaims(t); n != 1 {
			t.Errorf("Karpenter created %d NodeClaims, want the one for the pod that fits no pool", n)
		}
	}
	<-time.After(assert.Flag[time.Duration](t, "boot"))
	assert.Release(t, c.Rig, assert.Starts(t, c.Rig)[before:]...)
	assert.AwaitBound(t, c.Rig, ours...)
	c.mustRunOnStratosNodes(t, ours, before)
	t.Logf("burst %d: %d pods on %d nodes, NodeClaims %d", number, len(ours), len(assert.Starts(t, c.Rig))-before,
		c.nodeClaims(t))
}
