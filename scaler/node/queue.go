package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// Priorities in the queue; all else has 0. In a burst hundreds of nodes become ready within a few
// seconds, and each that opens has more written to it that no pod waits for.
const (
	// priorityStarting is that of a node that starts for replicas to come, priorityAwaited that of one
	// that starts for pods that exist.
	priorityStarting = 10
	priorityAwaited  = 20
)

// enqueueNode queues the instance of a Node by what waits for the node.
func (c *Reconciler) enqueueNode() handler.TypedEventHandler[*corev1.Node, v1alpha1.InstanceID] {
	type queue = workqueue.TypedRateLimitingInterface[v1alpha1.InstanceID]
	add := func(q queue, n *corev1.Node) {
		id, priority := inventory.InstanceOf(n), c.priority(n)
		prioritized, can := q.(priorityqueue.PriorityQueue[v1alpha1.InstanceID])
		switch {
		case id == "":
		case can && priority > 0:
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, id)
		default:
			q.Add(id)
		}
	}
	return handler.TypedFuncs[*corev1.Node, v1alpha1.InstanceID]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q queue) { add(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q queue) { add(q, e.Object) },
	}
}

func (c *Reconciler) priority(n *corev1.Node) int {
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) != v1alpha1.StateStarting {
		return 0
	}
	if slices.ContainsFunc(c.State.ClaimsOn(v1alpha1.NodeName(n.Name)), ofPod) {
		return priorityAwaited
	}
	return priorityStarting
}

func ofPod(c decide.Claim) bool { return !c.ToCome() }
