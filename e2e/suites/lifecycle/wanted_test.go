package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestDevicesReportedLate: a kubelet that has restarted reports no devices until their plugin has
// registered. The node opens once they are back, so the scheduler finds room at its first look and
// nothing is started twice.
func TestDevicesReportedLate(t *testing.T) {
	t.Parallel()
	const pool = "gpus"
	r := assert.SharedRig(t)
	warm(t, r, framework.Pool(pool, 2), gpuType)
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultDevicesLate, Op: fake.OpStart, Type: gpuType, Delay: 3 * time.Second})
	j := assert.OpenJournal(t, r)
	nodes := assert.PoolNodes(t, r, pool)
	pod := framework.PoolPod("trainer", pool, "cpu", "1")
	// Kubernetes wants extended resources as limits; the requests follow.
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("2")}
	on := assert.Serve(t, r, pod) // a kubelet without devices would reject it, and never retry

	versions := func() []assert.Version[*corev1.Node] { return j.NodeVersions(on) }
	starting := assert.First(t, "start of "+on, 0, versions, assert.InState(v1alpha1.StateStarting))
	bare := assert.First(t, "report without devices of "+on, starting.Revision, versions, func(n *corev1.Node) bool {
		left := n.Status.Allocatable[gpu]
		return assert.IsReady(n) && left.IsZero()
	})
	running := assert.First(t, "running of "+on, starting.Revision, versions, assert.InState(v1alpha1.StateRunning))
	if left := running.Object.Status.Allocatable[gpu]; left.Value() != 2 || running.Revision < bare.Revision {
		t.Errorf("node %s opened at revision %d with %s devices; it was Ready without any at %d", on, running.Revision,
			left.String(), bare.Revision)
	}
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Errorf("%d starts, want 1: %+v", len(starts), starts)
	}
	bound := map[string]bool{}
	for _, v := range j.PodVersions(pod.UID) {
		if v.Object.Spec.NodeName != "" {
			bound[v.Object.Spec.NodeName] = true
		}
	}
	if len(bound) != 1 || !bound[on] {
		t.Errorf("the pod was bound to %v, want %s alone", bound, on)
	}
	if names := r.Recorder.Starting(pod.UID); len(names) != 1 || names[0] != on {
		t.Errorf("the pod was told of %v and bound to %s", names, on)
	}
}

// TestPodBoundByNameStartsAStandbyNode: spec.nodeName passes every scheduler by, and the pod would
// wait for a stopped kubelet.
func TestPodBoundByNameStartsAStandbyNode(t *testing.T) {
	t.Parallel()
	const pool = "named"
	r := assert.SharedRig(t)
	warm(t, r, shortLived(pool, 2), "m5.large")
	nodes := assert.PoolNodes(t, r, pool)
	var name string
	for n := range nodes {
		name = max(name, n) // not the one that a claim would choose
	}
	pod := framework.Pod(pool+"-by-name", "cpu", "1")
	pod.Spec.NodeName = name
	assert.Serve(t, r, pod)
	assert.AwaitState(t, r, name, v1alpha1.StateRunning)
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 1 ||
		starts[0].Instance != assert.InstanceOf(nodes[name]) {
		t.Errorf("starts %+v, want one, of %s", starts, assert.InstanceOf(nodes[name]))
	}
	assert.Remove(t, r, pod)
	assert.AwaitState(t, r, name, v1alpha1.StateStandby)
}

// TestPersonsCordonStays: whatever Stratos does with a node, a cordon that it did not set is not
// its to take away.
func TestPersonsCordonStays(t *testing.T) {
	t.Parallel()
	const pool = "cordoned"
	r := assert.SharedRig(t)
	warm(t, r, shortLived(pool, 1), "m5.large")
	nodes := assert.PoolNodes(t, r, pool)
	name := assert.OnlyNode(t, r, pool).Name
	cordon := func(is bool) {
		t.Helper()
		assert.Change(t, r, assert.Node(name), func(n *corev1.Node) { n.Spec.Unschedulable = is })
	}
	first := framework.PoolPod(pool+"-first", pool, "cpu", "1")
	assert.Serve(t, r, first)
	assert.AwaitNode(t, r, name, "open", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateRunning && !n.Spec.Unschedulable
	})
	cordon(true)
	assert.Remove(t, r, first)
	assert.AwaitNode(t, r, name, "stopped under the person's cordon", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateStandby && n.Spec.Unschedulable &&
			n.Annotations[v1alpha1.AnnotationCordoned] == ""
	})

	waiting := framework.PoolPod(pool+"-waiting", pool, "cpu", "1")
	assert.Create(t, r, waiting)
	words := assert.AwaitEvent(t, r, waiting, v1alpha1.ReasonStandbyUnavailable)
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Fatalf("%d starts, want 1: a cordoned node is kept back; said: %s", len(starts), words)
	}
	// Bound by name a pod does not ask; the cordon outlives the start all the same.
	named := framework.Pod(pool+"-by-name", "cpu", "100m")
	named.Spec.NodeName = name
	assert.Serve(t, r, named)
	assert.AwaitNode(t, r, name, "running under the person's cordon", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateRunning && n.Spec.Unschedulable &&
			n.Annotations[v1alpha1.AnnotationCordoned] == ""
	})
	if p := assert.Now(t, r, waiting); p.Spec.NodeName != "" {
		t.Errorf("pod %s was bound to the cordoned node", p.Name)
	}
	cordon(false)
	assert.AwaitRunning(t, r, waiting)
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
}
