package scheduling

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestPreemption: the generated profile's dry run knows neither taints nor cordons nor what a pool
// node is about; the extender's /preempt makes good for it.
func TestPreemption(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(),
		ControlPlane: controlplane.Options{DefaultScheduler: true}})
	for name, value := range priorities() {
		assert.Create(t, r, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	// Pods that tolerate everything fill the pool's nodes, also the stopped ones.
	filler := withPriority(framework.PoolPod("filler", "daemons", "cpu", "1500m"), "p10").Spec
	filler.SchedulerName, filler.Tolerations = corev1.DefaultSchedulerName, framework.TolerateAll()
	daemons := framework.DaemonSet("filler", filler)
	pools := []*v1alpha1.NodePool{framework.Pool("pair", 2), framework.Pool("daemons", 1), framework.Pool("slow", 1)}
	class := framework.Class("daemons", "m6i.large")
	framework.StayUp(pools[1], class)
	assert.Create(t, r, daemons, class, framework.Class("pair", "m5.large"), framework.Class("slow", "m7i.large"))
	assert.Create(t, r, assert.Objects(pools)...)
	for _, p := range pools {
		assert.AwaitStandby(t, r, p.Name, p.Spec.PoolSize)
	}
	j := assert.OpenJournal(t, r)

	// In this order: the second row needs the full nodes that the first one leaves.
	t.Run("nobody is evicted while a standby node can take the pod", func(t *testing.T) { standbyBeforeEviction(t, r) })
	t.Run("a full running node of a pool gives way when no standby node is left",
		func(t *testing.T) { poolGivesWay(t, r) })
	t.Run("the stock profile's victims when no standby node can take the pod", func(t *testing.T) { stockVictims(t, r) })
	t.Run("a tainted node never loses a pod", func(t *testing.T) {
		n := assert.Ordinary("tainted", 2, taint("gpu", "", corev1.TaintEffectNoSchedule))
		refusedThenAllowed(t, r, n, func(n *corev1.Node) { n.Spec.Taints = nil })
	})
	t.Run("a cordoned node never loses a pod", func(t *testing.T) {
		n := assert.Ordinary("cordoned", 2)
		n.Spec.Unschedulable = true
		refusedThenAllowed(t, r, n, func(n *corev1.Node) { n.Spec.Unschedulable = false })
	})
	t.Run("a standby node never loses a pod", func(t *testing.T) { standbyKeeps(t, r, daemons) })
	t.Run("a starting node never loses a pod", func(t *testing.T) { startingKeeps(t, r, j) })
	t.Run("no answer to a scheduler had an entry without victims", func(t *testing.T) {
		for _, a := range r.Recorder.Asked(framework.Preempt) {
			checkVictims(t, a)
		}
	})
	t.Run("null lists are understood and nothing comes back without victims", func(t *testing.T) { nullLists(t, r) })
}

// priorities are PriorityClasses and their values.
func priorities() map[string]int32 {
	return map[string]int32{"p10": 10, "p20": 20, "p30": 30, "p40": 40, "high": 1000}
}

func withPriority(pod *corev1.Pod, class string) *corev1.Pod {
	pod.Spec.PriorityClassName = class
	return pod
}

func standbyBeforeEviction(t *testing.T, r *framework.Rig) {
	nodes := assert.PoolNodes(t, r, "pair")
	low := withPriority(framework.PoolPod("low", "pair", "cpu", "2"), "p10")
	full := assert.Serve(t, r, low)

	high := withPriority(framework.PoolPod("high", "pair", "cpu", "2"), "high")
	if on := assert.Serve(t, r, high); on == full {
		t.Errorf("the pod runs on %s, the full node, and not on the standby one", on)
	}
	assert.MustLive(t, r, low, full)
	// The test would show nothing if the scheduler had not had the eviction in mind.
	asks := assert.AwaitAsked(t, r.Recorder, framework.Preempt, high)
	for _, a := range asks {
		if a.Victims[full] == 0 || len(a.Kept.NodeNameToMetaVictims) != 0 {
			t.Errorf("asked about evicting %v, answered %v; want the full node and an empty answer", a.Victims,
				a.Kept.NodeNameToMetaVictims)
		}
	}
	if starts := assert.CallsAbout(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("StartInstance calls for two pods of a node's size: %+v", starts)
	}
}

// poolGivesWay: the low pod's node runs and the other holds a pod of the same priority, so only one
// eviction is right.
func poolGivesWay(t *testing.T, r *framework.Rig) {
	low, high := assert.Now(t, r, assert.Pod("low")), assert.Now(t, r, assert.Pod("high"))
	next := withPriority(framework.PoolPod("next", "pair", "cpu", "2"), "high")
	if on := assert.Serve(t, r, next); on != low.Spec.NodeName {
		t.Errorf("bound to %s, want %s, where the victim was", on, low.Spec.NodeName)
	}
	assert.AwaitGone(t, r, low)
	assert.MustLive(t, r, high, high.Spec.NodeName)
}

// refusedThenAllowed: of the full node the low pod is not evicted for a pod that could not run
// there all the same. Once what kept it off is gone, it is: so nothing else had saved it.
func refusedThenAllowed(t *testing.T, r *framework.Rig, n *corev1.Node, allow func(*corev1.Node)) {
	assert.Join(t, r, n)
	defer assert.Remove(t, r, n)
	low := withPriority(framework.Pod("low-"+n.Name, "cpu", "2"), "p10")
	low.Spec.Affinity, low.Spec.Tolerations = framework.OnNode(n.Name), framework.TolerateAll()
	assert.Create(t, r, low)
	assert.AwaitBound(t, r, low)

	high := withPriority(framework.Pod("high-"+n.Name, "cpu", "2"), "high")
	high.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.Name}
	assert.Create(t, r, high)
	checkRefused(t, r, high, n.Name)
	assert.MustLive(t, r, low, n.Name)

	assert.Change(t, r, n, allow)
	high = askAnew(t, r, high, n.Name)
	defer assert.Remove(t, r, high)
	assert.AwaitGone(t, r, low)
}

// standbyKeeps: a DaemonSet's pods fill a stopped node.
func standbyKeeps(t *testing.T, r *framework.Rig, ds *appsv1.DaemonSet) {
	nodes := assert.PoolNodes(t, r, "daemons")
	name := assert.OnlyNode(t, r, "daemons").Name
	victim := &assert.AwaitPods(t, r, ds.Spec.Template.Labels, 1)[0]
	if victim.Spec.NodeName != name || nodes[name].Labels[v1alpha1.LabelState] != string(v1alpha1.StateStandby) {
		t.Fatalf("DaemonSet's pod on %q, pool's node %s is %s", victim.Spec.NodeName, name,
			nodes[name].Labels[v1alpha1.LabelState])
	}
	high := withPriority(framework.PoolPod("high-daemons", "daemons", "cpu", "1"), "high")
	assert.Create(t, r, high)
	defer assert.Remove(t, r, high)
	checkRefused(t, r, high, name)
	assert.MustLive(t, r, victim, name)
	if state := assert.InstanceState(t, r, assert.InstanceOf(nodes[name])); state != provider.InstanceStopped {
		t.Errorf("the instance is %s", state)
	}
	if starts := assert.CallsAbout(t, r, fake.OpStart, nodes); len(starts) != 0 {
		t.Errorf("started for a pod that does not fit: %+v", starts)
	}
}

// startingKeeps: a pod that names the standby node itself fills it and starts it. While it starts
// no pod is evicted there; once it runs it is a node like any other.
func startingKeeps(t *testing.T, r *framework.Rig, j *assert.Journal) {
	nodes := assert.PoolNodes(t, r, "slow")
	name := assert.OnlyNode(t, r, "slow").Name
	assert.HoldStarts(t, r, "m7i.large", 1)
	low := withPriority(framework.Pod("low-slow", "cpu", "2"), "p10")
	low.Spec.NodeName = name
	assert.Create(t, r, low)
	assert.AwaitCall(t, r, fake.OpStart, assert.InstanceOf(nodes[name]))
	if state := assert.PoolNodes(t, r, "slow")[name].Labels[v1alpha1.LabelState]; state != string(v1alpha1.StateStarting) {
		t.Fatalf("node %s is %s", name, state)
	}
	high := withPriority(framework.PoolPod("high-slow", "slow", "cpu", "2"), "high")
	assert.Create(t, r, high)
	checkRefused(t, r, high, name)
	assert.MustLive(t, r, low, name)

	assert.Reboot(t, r, assert.InstanceOf(nodes[name]))
	running := assert.First(t, "running", 0, func() []assert.Version[*corev1.Node] { return j.NodeVersions(name) },
		assert.InState(v1alpha1.StateRunning))
	askAnew(t, r, high, name)
	evicted := assert.FirstVersion(t, "eviction", 0,
		func() []assert.Version[*corev1.Pod] { return j.PodVersions(low.UID) },
		func(v assert.Version[*corev1.Pod]) bool { return v.Deleted || v.Object.DeletionTimestamp != nil })
	if evicted.Revision < running.Revision {
		t.Errorf("the pod was evicted at revision %d, while its node started; it ran from %d", evicted.Revision,
			running.Revision)
	}
}

// checkRefused: the scheduler wanted to evict on the node, was told that it must not, and has said
// that the pod waits.
func checkRefused(t *testing.T, r *framework.Rig, pod *corev1.Pod, node string) {
	t.Helper()
	asks := assert.AwaitAsked(t, r.Recorder, framework.Preempt, pod)
	assert.AwaitPending(t, r, pod, corev1.PodReasonUnschedulable)
	for _, a := range asks {
		if a.Victims[node] == 0 || a.Code != 200 {
			t.Errorf("/preempt about pod %s: candidates %v, code %d; want node %s among them", pod.Name, a.Victims, a.Code, node)
		}
		if len(a.Kept.NodeNameToMetaVictims) != 0 {
			t.Errorf("/preempt about pod %s lets evict on %v", pod.Name, a.Kept.NodeNameToMetaVictims)
		}
	}
	if p, err := framework.Read(t.Context(), r, pod); err != nil || p.Status.NominatedNodeName != "" {
		t.Errorf("pod %s: nominated to %q, %v", pod.Name, p.Status.NominatedNodeName, err)
	}
}

// checkVictims: an entry without victims would be an error to a scheduler whose extender is not
// ignorable.
func checkVictims(t *testing.T, a framework.Asked) {
	t.Helper()
	for node, victims := range a.Kept.NodeNameToMetaVictims {
		if victims == nil || len(victims.Pods) == 0 || slices.Contains(victims.Pods, nil) ||
			len(victims.Pods) != a.Victims[node] {
			t.Errorf("answer about pod %s, node %s: %+v, asked about %d victims", a.Pod.Name, node, victims, a.Victims[node])
		}
	}
}

// askAnew replaces the pod until it is bound, and returns the one that is. The scheduler asks
// /preempt once when a node changes, and may be told what the extender's watch showed a moment
// before; in a cluster as quiet as this one nothing then brings the pod back for minutes. What is
// tested here is whom a pod evicts, not when.
func askAnew(t *testing.T, r *framework.Rig, pod *corev1.Pod, node string) *corev1.Pod {
	t.Helper()
	for try := 1; ; try++ {
		assert.Remove(t, r, pod.DeepCopy())
		next := pod.DeepCopy()
		next.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s-%d", pod.Name, try)}
		next.Status = corev1.PodStatus{}
		assert.Create(t, r, next)
		if on := boundOrRefused(t, r, next); on == node {
			return next
		} else if on != "" {
			t.Fatalf("pod %s is bound to %s, want %s", next.Name, on, node)
		}
		assert.Remove(t, r, next)
	}
}

// boundOrRefused waits for one of the two and returns the node, empty for refused. A pod that may
// evict on a node counts as bound there. kube-scheduler leaves a pod whose victim was evicted for
// another one in its queue for 5 minutes (kubernetes/kubernetes#141694), and askAnew replaces the
// pod for which the scheduler has just evicted.
func boundOrRefused(t *testing.T, r *framework.Rig, pod *corev1.Pod) string {
	t.Helper()
	on := ""
	assert.Await(t, "pod "+pod.Name+" bound or refused", func(ctx context.Context) (bool, error) {
		p, err := framework.Read(ctx, r, pod)
		if err != nil {
			return false, err
		}
		asks := r.Recorder.About(framework.Preempt, pod.UID)
		for _, a := range asks {
			for node := range a.Kept.NodeNameToMetaVictims {
				on = node
			}
		}
		if p.Spec.NodeName != "" {
			on = p.Spec.NodeName
		}
		if on != "" || len(asks) > 0 {
			return true, nil
		}
		return false, fmt.Errorf("%d asks for nodes: %s", len(r.Recorder.About(framework.Filter, pod.UID)), framework.WhyPending(p))
	})
	return on
}
