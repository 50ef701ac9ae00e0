package waiting

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// The pools of TestNothingStartsFor. Each of those with a mark has one node, and a person has
// marked it.
const (
	poolPlain     = "plain"
	poolReserved  = "reserved" // its template has the taint reserved
	poolCordoned  = "cordoned"
	poolTainted   = "tainted"
	poolAnnotated = "annotated"
	poolAgents    = "agents" // for the DaemonSet
)

func poolSizes() map[string]int32 {
	return map[string]int32{poolPlain: 2, poolReserved: 1, poolCordoned: 1, poolTainted: 1, poolAnnotated: 1,
		poolAgents: 1}
}

func reserved() corev1.Taint {
	return corev1.Taint{Key: "example.com/reserved", Value: "batch", Effect: corev1.TaintEffectNoSchedule}
}

func persons() corev1.Taint {
	return corev1.Taint{Key: "example.com/under-repair", Effect: corev1.TaintEffectNoSchedule}
}

// refusal is a pod for which nothing may start.
type refusal struct {
	pod *corev1.Pod
	// why is what the event has to say.
	why []string
	// asked: the pod fits some node but for taints and cordon, so the extender itself has refused it.
	// Else the scheduler asks about it nothing, and the event comes from the watch alone.
	asked bool
}

func refusals() map[string]refusal {
	optedOut := framework.PoolPod("opted-out", poolPlain, "cpu", "1")
	optedOut.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
	// A DaemonSet of another API (OpenKruise has one): the garbage collector would delete the pod of a
	// stock one that is not there. On a pool of its own: pods of a DaemonSet ignore the claims of
	// others, so it would take the normal pod's room.
	owned := framework.PoolPod("owned-by-daemonset", poolAgents, "cpu", "1")
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet", Name: "advanced",
		UID: "00000000-0000-0000-0000-000000000001", Controller: new(true),
	}}
	elsewhere := framework.Pod("elsewhere", "cpu", "1")
	elsewhere.Spec.NodeSelector = map[string]string{"example.com/disk": "tape"}
	device := framework.Pod("device", "example.com/gpu", "1")
	device.Spec.Containers[0].Resources.Limits = device.Spec.Containers[0].Resources.Requests
	// Each pool's reason names it, which together is more than an event's note holds.
	maker := strings.Repeat("device-maker.", 17) + "example.com/gpu"
	lengthy := framework.Pod("lengthy", maker, "1")
	lengthy.Spec.Containers[0].Resources.Limits = lengthy.Spec.Containers[0].Resources.Requests
	return map[string]refusal{
		"a pod with a reason that is longer than a note": {lengthy, []string{"pool annotated: needs 1 " + maker},
			false},
		"a pod that is opted out": {optedOut, []string{"annotated", v1alpha1.AnnotationIgnore},
			true},
		"a pod too large for any pool": {framework.Pod("large", "cpu", "64"),
			[]string{"pool plain: needs 64 cpu, node has 2 left", "pool cordoned: needs 64 cpu"}, false},
		"a pod too large in memory": {framework.Pod("large-memory", "memory", "100Gi"),
			[]string{"pool plain: needs 100Gi memory, node has 8Gi left"}, false},
		"a pod that wants a device that no node has": {device,
			[]string{"pool plain: needs 1 example.com/gpu, node has 0 left"}, false},
		"a pod that does not tolerate the pool's taint": {framework.PoolPod("intolerant", poolReserved, "cpu", "1"),
			[]string{"pool reserved: does not tolerate taint", reserved().Key}, true},
		"a pod whose node selector matches no node": {elsewhere, []string{"pool plain", "selector"}, false},
		"a pod for a pool whose only node a person cordoned": {framework.PoolPod("for-cordoned", poolCordoned, "cpu", "1"),
			[]string{"pool cordoned", "not startable", "cordoned by another client"}, true},
		"a pod for a pool whose only node a person tainted": {framework.PoolPod("for-tainted", poolTainted, "cpu", "1"),
			[]string{"pool tainted", persons().Key}, true},
		"a pod that tolerates the taint that a person set": {tolerating(persons(),
			framework.PoolPod("for-tainted-tolerant", poolTainted, "cpu", "1")),
			[]string{"pool tainted", "not startable", persons().Key},
			true},
		"a pod for a pool whose only node must not be started": {
			framework.PoolPod("for-annotated", poolAnnotated, "cpu", "1"),
			[]string{"pool annotated", "not startable", v1alpha1.AnnotationDoNotStart}, true},
		"a pod that names a DaemonSet as its controller": {owned, []string{"DaemonSet"}, true},
	}
}

func tolerating(taint corev1.Taint, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint.Key,
		Operator: corev1.TolerationOpEqual, Value: taint.Value})
	return pod
}

// TestNothingStartsFor has all the pods wait at once, on one rig. That nothing started for them is
// proved by what comes after: each of them has been told why, and then other pods are served by
// exactly one start each.
func TestNothingStartsFor(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms"}})
	warmAll(t, r)
	marked := markAll(t, r)
	cases := refusals()
	for _, c := range cases {
		assert.Create(t, r, c.pod)
	}
	t.Run("a DaemonSet's pod that cannot run", func(t *testing.T) { testDaemonSet(t, r) })
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Logf("event: %s", assert.AwaitEvent(t, r, c.pod, v1alpha1.ReasonStandbyUnavailable, c.why...))
			asked := r.Recorder.About(framework.Filter, c.pod.UID)
			if c.asked != (len(asked) > 0) {
				t.Errorf("the extender was asked %d times, want it asked: %v", len(asked), c.asked)
			}
			for _, a := range asked {
				if a.Filter.NodeNames != nil && len(*a.Filter.NodeNames) > 0 {
					t.Errorf("the extender answered with nodes: %v", *a.Filter.NodeNames)
				}
			}
		})
	}
	if got := assert.Starts(t, r); len(got) != 0 {
		t.Fatalf("started %v for pods that no start serves", got)
	}
	t.Run("but for a normal pod exactly one", func(t *testing.T) {
		testServed(t, r, poolPlain,
			framework.PoolPod("normal", poolPlain, "cpu", "1"), cases)
	})
	t.Run("and for one that tolerates the pool's taint", func(t *testing.T) {
		testServed(t, r, poolReserved, tolerating(reserved(), framework.PoolPod("tolerant", poolReserved, "cpu", "1")), cases)
	})
	t.Run("and for the pods of marked nodes once the marks are gone", func(t *testing.T) {
		testUnmarked(t, r, marked,
			cases)
	})
}

func warmAll(t *testing.T, r *framework.Rig) {
	t.Helper()
	for name, size := range poolSizes() {
		pool := framework.Pool(name, size)
		if name == poolReserved {
			pool.Spec.Template.Taints = []corev1.Taint{reserved()}
		}
		class := framework.Class(name, "m5.large")
		if name == poolAgents {
			framework.StayUp(pool, class, framework.PodImage) // which the DaemonSet wants later
		}
		assert.Create(t, r, class, pool)
	}
	for name, size := range poolSizes() {
		assert.AwaitStandby(t, r, name, size)
	}
}

// markAll marks the nodes as a person would and returns them by pool. A standby node is cordoned
// already, by us; a person's cordon is one without our annotation.
func markAll(t *testing.T, r *framework.Rig) map[string]*corev1.Node {
	t.Helper()
	marked := map[string]*corev1.Node{}
	for pool, mark := range map[string]func(*corev1.Node){
		poolCordoned:  func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationCordoned) },
		poolTainted:   func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, persons()) },
		poolAnnotated: func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationDoNotStart] = "true" },
	} {
		node := assert.OnlyNode(t, r, pool)
		if !node.Spec.Unschedulable {
			t.Fatalf("pool %s: want one node, cordoned, got %v", pool, node)
		}
		marked[pool] = assert.Change(t, r, node, mark)
	}
	// The extender sees changes in their order, so once it knows of this one it knows of the marks.
	last := assert.OnlyNode(t, r, poolAgents)
	taintSeen(t, r, last)
	assert.Change(t, r, last, untaint)
	return marked
}

func untaint(n *corev1.Node) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == persons().Key })
}

// taintSeen taints the node and waits until the extender has seen it: until it refuses the node to
// a DaemonSet's pod that tolerates all the rest. To ask about such a pod makes no claim.
func taintSeen(t *testing.T, r *framework.Rig, node *corev1.Node) {
	t.Helper()
	node = assert.Change(t, r, node, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, persons()) })
	probe := framework.Pod("probe")
	probe.UID = "probe"
	probe.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "probe", Controller: new(true)}}
	for _, taint := range node.Spec.Taints {
		if taint.Key != persons().Key {
			probe.Spec.Tolerations = append(probe.Spec.Tolerations, corev1.Toleration{Key: taint.Key,
				Operator: corev1.TolerationOpExists})
		}
	}
	assert.Eventually(t, "refusal of node "+node.Name, func(ctx context.Context) (extenderv1.ExtenderFilterResult, error) {
		return framework.AskFilter(ctx, r.ExtenderURL(), probe, node.Name)
	}, func(answer extenderv1.ExtenderFilterResult) bool {
		return answer.NodeNames == nil || len(*answer.NodeNames) == 0
	})
}

// testDaemonSet has the DaemonSet controller make a pod for a standby node, which then turns out
// not to take it. Without the gate the controller would not make one, or the pod would be bound: a
// stopped node is a DaemonSet's business too.
func testDaemonSet(t *testing.T, r *framework.Rig) {
	node := assert.OnlyNode(t, r, poolAgents)
	assert.Change(t, r, node, func(n *corev1.Node) { n.Labels["example.com/agent"] = "wanted" })
	assert.Create(t, r, framework.DaemonSet("agents", agentSpec()))
	pod := &assert.AwaitPods(t, r, map[string]string{"app": "agents"}, 1)[0]
	taintSeen(t, r, node)
	assert.Change(t, r, pod, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	t.Logf("event: %s", assert.AwaitEvent(t, r, pod, v1alpha1.ReasonStandbyUnavailable, "DaemonSet"))
	asked := r.Recorder.About(framework.Filter, pod.UID)
	if len(asked) == 0 || !slices.Equal(asked[0].Nodes, []string{node.Name}) {
		t.Errorf("want the extender asked about the pod and node %s, got %v", node.Name, asked)
	}
	if got := assert.Starts(t, r); len(got) != 0 {
		t.Errorf("started %v", got)
	}
	// The same pod belongs on the node once the person is done, stopped as it is.
	assert.Change(t, r, node, untaint)
	if got := assert.AwaitBound(t, r, pod); got[0] != node.Name {
		t.Errorf("bound to %v, want %s", got, node.Name)
	}
	if got := assert.Starts(t, r); len(got) != 0 {
		t.Errorf("started %v for a DaemonSet's pod that is bound", got)
	}
}

// agentSpec is of pods for the labelled node. They tolerate that the node is stopped, nothing else,
// and wait behind a gate.
func agentSpec() corev1.PodSpec {
	pod := framework.Pod("agent", "cpu", "100m")
	pod.Spec.NodeSelector = map[string]string{"example.com/agent": "wanted"}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/not-yet"}}
	for _, key := range []string{
		v1alpha1.TaintStandby, "node.cloudprovider.kubernetes.io/shutdown", corev1.TaintNodeNotReady,
		corev1.TaintNodeUnreachable,
	} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return pod.Spec
}

// testServed wants the pod served by exactly one more start, and its event to name the node and the
// pool.
func testServed(t *testing.T, r *framework.Rig, pool string, pod *corev1.Pod, waiting map[string]refusal) {
	before := assert.Starts(t, r)
	assert.Create(t, r, pod)
	node := assert.AwaitBound(t, r, pod)[0]
	note := assert.AwaitEvent(t, r, pod, v1alpha1.ReasonStandbyStarting, "node "+node, "pool "+pool)
	t.Logf("event: %s", note)
	if assert.PoolNodes(t, r, pool)[node] == nil {
		t.Errorf("bound to %s, which is not of pool %s", node, pool)
	}
	if got := assert.Starts(t, r); len(got) != len(before)+1 {
		t.Errorf("started %v, want one start more than %v", got, before)
	}
	stillNothing(t, r, waiting)
}

// stillNothing wants no start announced for any pod that is refused.
func stillNothing(t *testing.T, r *framework.Rig, waiting map[string]refusal) {
	t.Helper()
	for _, c := range waiting {
		assert.MustHaveNoEvent(t, r, c.pod, v1alpha1.ReasonStandbyStarting)
	}
}

// testUnmarked takes the marks away. That the pods are served then, by one start for each node,
// shows that nothing but the mark had kept them waiting.
func testUnmarked(t *testing.T, r *framework.Rig, marked map[string]*corev1.Node, cases map[string]refusal) {
	before := assert.Starts(t, r)
	for _, node := range marked {
		assert.Change(t, r, node, func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			delete(n.Annotations, v1alpha1.AnnotationDoNotStart)
			untaint(n)
		})
	}
	for name, c := range cases {
		if node := marked[c.pod.Spec.NodeSelector[v1alpha1.LabelPool]]; node != nil {
			if got := assert.AwaitBound(t, r, c.pod); got[0] != node.Name {
				t.Errorf("%s: bound to %v, want %s", name, got, node.Name)
			}
		}
	}
	if got := assert.Starts(t, r); len(got) != len(before)+len(marked) {
		t.Errorf("started %v, want %d more than %v", got, len(marked), before)
	}
}
