package failures

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// noCapacity: the cloud has no instance of the better pool's type. Pods move to the other pool at
// once, the better pool is asked of the cloud once only, and no strike is counted.
func noCapacity(t *testing.T, r *framework.Rig) {
	pool(t, r, "dear", "m5.large", 2, weighs(50))
	pool(t, r, "cheap", "m6i.large", 2, weighs(20))
	dear := assert.PoolNodes(t, r, "dear")
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultInsufficientCapacity, Op: fake.OpStart, Type: "m5.large"})
	cheap := assert.PoolNodes(t, r, "cheap")
	for _, name := range []string{"capacity-1", "capacity-2"} {
		pod := framework.Pod(name, "cpu", "1500m")
		pod.Spec.Affinity = framework.OnNodes(v1alpha1.LabelPool, corev1.NodeSelectorOpIn, "dear", "cheap")
		assert.Create(t, r, pod)
		if on := assert.AwaitBound(t, r, pod)[0]; cheap[on] == nil {
			t.Errorf("pod %s is on %s, want a node of the pool whose type the cloud has", name, on)
		}
	}
	calls := assert.CallsAbout(t, r, fake.OpStart, dear)
	if len(calls) != 1 {
		t.Errorf("%d starts of the scarce type were asked for, want 1: %v", len(calls), calls)
	}
	for name, n := range assert.PoolNodes(t, r, "dear") {
		if assert.StateOf(n) != v1alpha1.StateStandby || n.Annotations[v1alpha1.AnnotationStartFailures] != "" {
			t.Errorf("node %s is %s with %q strikes, want standby without any", name, assert.StateOf(n),
				n.Annotations[v1alpha1.AnnotationStartFailures])
		}
		if len(calls) == 1 && calls[0].Instance == assert.InstanceOf(n) {
			assert.AwaitEvent(t, r, n, v1alpha1.ReasonInsufficientCapacity)
		}
	}
}

// silentKubelet: an instance runs and never reports. The pod moves to another node at the deadline;
// a node with two strikes is replaced.
func silentKubelet(t *testing.T, r *framework.Rig) {
	pool(t, r, "silent", "m7i.large", 2, givesUpStarts)
	before := assert.PoolNodes(t, r, "silent")
	for name := range before {
		assert.Change(t, r, assert.Node(name), func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationStartFailures] = "2" })
	}
	assert.HoldStarts(t, r, "m7i.large", 1)
	pod := podOn("silent-1", "silent")
	assert.Create(t, r, pod)
	on := assert.AwaitBound(t, r, pod)[0]
	var struck string
	for name := range before {
		if name != on {
			struck = name
		}
	}
	assert.AwaitGone(t, r, assert.Node(struck))
	n := assert.AwaitNode(t, r, on, "running without strikes",
		func(n *corev1.Node) bool { return n.Annotations[v1alpha1.AnnotationStartFailures] == "" })
	if before[n.Name] == nil {
		t.Errorf("the pod is on %s, a node that was not there before", on)
	}
	assert.AwaitStandby(t, r, "silent", 1)
	if got := len(assert.PoolNodes(t, r, "silent")); got != 2 {
		t.Errorf("%d nodes after the replacement, want 2", got)
	}
}

// fallsBack: the cloud accepts a start and stops the instance again. It is asked once more, and the
// pod runs on that very node.
func fallsBack(t *testing.T, r *framework.Rig) {
	pool(t, r, "falling", "c5.large", 1)
	nodes := assert.PoolNodes(t, r, "falling")
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultStartFallsBack, Op: fake.OpStart, Type: "c5.large", Count: 1,
		Reason: "Client.InternalError"})
	pod := podOn("falling-1", "falling")
	assert.Create(t, r, pod)
	if on := assert.AwaitBound(t, r, pod)[0]; nodes[on] == nil {
		t.Errorf("the pod is on %s, want the node whose start fell back", on)
	}
	if got := len(assert.Accepted(t, r, fake.OpStart, nodes)); got != 2 {
		t.Errorf("%d starts, want the one that fell back and one more", got)
	}
}

// neverRegisters: a new instance whose Node never appears is terminated at preWarm.timeout, and
// another is launched.
func neverRegisters(t *testing.T, r *framework.Rig) {
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpLaunch, Type: "c6i.large", Count: 1})
	p := pool(t, r, "mute", "c6i.large", 1, func(s *v1alpha1.NodePoolSpec) { s.PreWarm.Timeout = seconds(15) })
	assert.AwaitEvent(t, r, p, v1alpha1.ReasonWarmupFailed, "no Node registered within preWarm.timeout")
}

// startupTaints are on the node whenever it is stopped, and gone when it runs; those that others
// remove hold the start up until they are gone.
func startupTaints(t *testing.T, r *framework.Rig) {
	taint := corev1.Taint{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(n *corev1.Node) bool { return assert.HasTaint(n, taint.Key) }
	for name, c := range map[string]struct {
		instanceType string
		removal      v1alpha1.StartupTaintRemoval
	}{
		"own":      {"r5.large", v1alpha1.RemoveWhenNetworkReady},
		"external": {"t3.large", v1alpha1.RemoveExternal},
	} {
		pool(t, r, name, c.instanceType, 1, emptiesAtOnce, func(s *v1alpha1.NodePoolSpec) {
			s.Template.StartupTaints, s.Template.StartupTaintRemoval = []corev1.Taint{taint}, c.removal
		})
		for _, life := range []string{"-1", "-2"} {
			n := assert.OnlyNode(t, r, name)
			if !tainted(n) {
				t.Errorf("standby node %s has no startup taint: %v", n.Name, n.Spec.Taints)
			}
			pod := podOn(name+life, name)
			assert.Create(t, r, pod)
			if c.removal == v1alpha1.RemoveExternal {
				held := assert.AwaitNode(t, r, n.Name, "Ready and still starting", assert.IsReady)
				if assert.StateOf(held) != v1alpha1.StateStarting {
					t.Errorf("node %s is %s with its startup taint on", n.Name, assert.StateOf(held))
				}
				assert.Change(t, r, n, func(n *corev1.Node) {
					n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key })
				})
			}
			assert.AwaitBound(t, r, pod)
			if n := assert.OnlyNode(t, r, name); tainted(n) {
				t.Errorf("running node %s has its startup taint: %v", n.Name, n.Spec.Taints)
			}
			assert.Remove(t, r, pod)
			assert.AwaitStandby(t, r, name, 1)
		}
	}
}
