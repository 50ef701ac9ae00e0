package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// In a burst more nodes report within a moment than can be opened in it. Those for which pods wait
// open first, and what else is written to open nodes comes after all openings.
func TestNodesForWhichPodsWaitComeFirst(t *testing.T) {
	node := func(name string, state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
		return scalertest.NodeIn(state, append(change, func(n *corev1.Node) {
			n.Name, n.Spec.ProviderID = name, "fake:///zone-a/i-"+name
			n.Annotations[v1alpha1.AnnotationInstanceID] = "i-" + name
		})...)
	}
	toCome := string(decide.SlotOf("set", 0))
	nodes := []*corev1.Node{
		node("standby", v1alpha1.StateStandby), node("running", v1alpha1.StateRunning),
		node("awaited", v1alpha1.StateStarting, scalertest.Annotated(v1alpha1.AnnotationClaims, "pod")),
		node("foreign", "", func(n *corev1.Node) { n.Labels = nil }),
		node("early", v1alpha1.StateStarting, scalertest.Annotated(v1alpha1.AnnotationClaims, toCome)),
	}
	state := cluster.New(decide.NewClaims(), scalertest.Epoch)
	state.SetPool(scalertest.NodePool(5, 0))
	state.SetPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}})
	queue := priorityqueue.New[v1alpha1.InstanceID]("nodes")
	t.Cleanup(queue.ShutDown)
	events := (&Reconciler{State: state}).enqueueNode()
	for i, n := range nodes {
		state.SetNode(n)
		if i%2 == 0 {
			events.Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: n}, queue)
		} else {
			events.Update(t.Context(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: &corev1.Node{},
				ObjectNew: n}, queue)
		}
	}
	events.Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: &corev1.Node{}}, queue) // no instance's yet
	// Len also takes in what was added last.
	if queue.Len() != len(nodes) {
		t.Fatalf("%d instances are queued, want %d", queue.Len(), len(nodes))
	}
	var got []v1alpha1.InstanceID
	for range nodes {
		id, _ := queue.Get()
		got = append(got, id)
		queue.Done(id)
	}
	if want := []v1alpha1.InstanceID{"i-awaited", "i-early"}; !slices.Equal(got[:2], want) || queue.Len() != 0 {
		t.Errorf("in the order %q and %d more, want %q first, then the others", got, queue.Len(), want)
	}
}
