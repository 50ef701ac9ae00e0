package lives

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestDevicesReportedLate: a kubelet that has restarted reports no devices until their plugin has registered. The node opens once they
// are back, so the scheduler finds room at its first look and nothing is started twice.
func TestDevicesReportedLate(t *testing.T) {
	const pool, instanceType, gpu = "gpus", "e2e.gpu", "example.com/gpu"
	r := newRig(t, "--fake-instance-types="+instanceType+"=cpu:4,memory:16Gi,"+gpu+":2")
	warm(t, r, rig.Pool(pool, 2), instanceType)
	if err := r.Cloud.SetTimes(t.Context(), fake.Times{DeviceDelay: 3 * time.Second}); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, r)
	nodes := poolNodes(t, r, pool)
	pod := onPool(rig.Pod("trainer", "cpu", "1"), pool)
	// Kubernetes wants extended resources as limits; the requests follow.
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("2")}
	create(t, r, pod)
	on := awaitBound(t, r, pod)[0]
	awaitRunning(t, r, pod) // a kubelet without devices would reject it, for good

	versions := func() []version[*corev1.Node] { return j.node(on) }
	starting := awaitFirst(t, "start of "+on, 0, versions, inState(v1alpha1.StateStarting))
	bare := awaitFirst(t, "report without devices of "+on, starting.revision, versions, func(n *corev1.Node) bool {
		left := n.Status.Allocatable[gpu]
		return isReady(n) && left.IsZero()
	})
	running := awaitFirst(t, "running of "+on, starting.revision, versions, inState(v1alpha1.StateRunning))
	if left := running.object.Status.Allocatable[gpu]; left.Value() != 2 || running.revision < bare.revision {
		t.Errorf("node %s opened at revision %d with %s devices; it was Ready without any at %d", on, running.revision, left.String(), bare.revision)
	}
	if starts := accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Errorf("%d starts, want 1: %+v", len(starts), starts)
	}
	bound := map[string]bool{}
	for _, v := range j.pod(pod.UID) {
		if v.object.Spec.NodeName != "" {
			bound[v.object.Spec.NodeName] = true
		}
	}
	if len(bound) != 1 || !bound[on] {
		t.Errorf("the pod was bound to %v, want %s alone", bound, on)
	}
	if names := promises(r, pod); len(names) != 1 || names[0] != on {
		t.Errorf("the pod was promised %v and bound to %s", names, on)
	}
}

// TestPodBoundByNameStartsAStandbyNode: spec.nodeName passes every scheduler by, and the pod would wait for a stopped kubelet.
func TestPodBoundByNameStartsAStandbyNode(t *testing.T) {
	const pool = "named"
	r := newRig(t)
	warm(t, r, shortLived(pool, 2), "m5.large")
	nodes := poolNodes(t, r, pool)
	var name string
	for n := range nodes {
		name = max(name, n) // not the one that a claim would choose
	}
	pod := rig.Pod("by-name", "cpu", "1")
	pod.Spec.NodeName = name
	create(t, r, pod)
	awaitRunning(t, r, pod)
	awaitNode(t, r, name, "running", inState(v1alpha1.StateRunning))
	if starts := accepted(t, r, fake.OpStart, nodes); len(starts) != 1 || starts[0].Instance != instanceOf(nodes[name]) {
		t.Errorf("starts %+v, want one, of %s", starts, instanceOf(nodes[name]))
	}
	remove(t, r, pod)
	awaitNode(t, r, name, "standby again", inState(v1alpha1.StateStandby))
}

// TestPersonsCordonStays: whatever Stratos does with a node, a cordon that it did not set is not its to take away.
func TestPersonsCordonStays(t *testing.T) {
	const pool = "cordoned"
	r := newRig(t)
	warm(t, r, shortLived(pool, 1), "m5.large")
	nodes := poolNodes(t, r, pool)
	name := onlyNode(t, r, pool).Name
	cordon := func(is bool) {
		t.Helper()
		n := &corev1.Node{}
		if err := r.Client.Get(t.Context(), keyOf(name), n); err != nil {
			t.Fatal(err)
		}
		before := n.DeepCopy()
		n.Spec.Unschedulable = is
		if err := r.Client.Patch(t.Context(), n, mergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	first := onPool(rig.Pod("first", "cpu", "1"), pool)
	create(t, r, first)
	awaitRunning(t, r, first)
	awaitNode(t, r, name, "open", func(n *corev1.Node) bool {
		return stateOf(n) == v1alpha1.StateRunning && !n.Spec.Unschedulable
	})
	cordon(true)
	remove(t, r, first)
	awaitNode(t, r, name, "stopped under the person's cordon", func(n *corev1.Node) bool {
		return stateOf(n) == v1alpha1.StateStandby && n.Spec.Unschedulable && n.Annotations[v1alpha1.AnnotationCordoned] == ""
	})

	waiting := onPool(rig.Pod("waiting", "cpu", "1"), pool)
	create(t, r, waiting)
	words := awaitEvent(t, r, waiting, v1alpha1.ReasonStandbyUnavailable)
	if starts := accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Fatalf("%d starts, want 1: a cordoned node is kept back; said: %s", len(starts), words)
	}
	// Bound by name a pod does not ask; the cordon outlives the start all the same.
	named := rig.Pod("by-name", "cpu", "100m")
	named.Spec.NodeName = name
	create(t, r, named)
	awaitRunning(t, r, named)
	awaitNode(t, r, name, "running under the person's cordon", func(n *corev1.Node) bool {
		return stateOf(n) == v1alpha1.StateRunning && n.Spec.Unschedulable && n.Annotations[v1alpha1.AnnotationCordoned] == ""
	})
	if p := podNow(t, r, waiting); p.Spec.NodeName != "" {
		t.Errorf("pod %s was bound to the cordoned node", p.Name)
	}
	cordon(false)
	awaitRunning(t, r, waiting)
	if starts := accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
}
