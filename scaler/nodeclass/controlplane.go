package nodeclass

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// following is a class whose image may follow the node image that control-plane Nodes name.
type following interface{ FollowsControlPlane() bool }

// due is when the cloud is to be asked again: at once where the control-plane Nodes have changed
// since it was asked for a class that follows them.
func (c *Reconciler) due(class v1alpha1.NodeClass, last look) time.Time {
	f, ok := class.(following)
	if ok && f.FollowsControlPlane() && last.controlPlane != c.controlPlane.Load() {
		return last.at
	}
	return last.next()
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// watchControlPlane makes the controller look at the classes that follow control-plane Nodes when
// these name another node image, come or go.
func (c *Reconciler) watchControlPlane(b *builder.Builder) *builder.Builder {
	if _, ok := c.Kind.New().(following); !ok {
		return b
	}
	return b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.ofControlPlane),
		builder.WithPredicates(namesAnotherImage()))
}

// ofControlPlane leads to all classes that were resolved so far. A class that is being resolved now
// is due again by the count.
func (c *Reconciler) ofControlPlane(ctx context.Context, _ client.Object) []reconcile.Request {
	c.controlPlane.Add(1)
	return c.everyOne(ctx, struct{}{})
}

// namesAnotherImage admits events of control-plane Nodes, and of their updates those after which
// they say something else of the node image.
func namesAnotherImage() predicate.Predicate {
	says := func(n client.Object) (image string, isControlPlane bool) {
		_, isControlPlane = n.GetLabels()[v1alpha1.LabelControlPlane]
		if isControlPlane {
			image = n.GetLabels()[v1alpha1.LabelNodeImage]
		}
		return image, isControlPlane
	}
	counts := func(n client.Object) bool { _, ok := says(n); return ok }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return counts(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return counts(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := says(e.ObjectOld)
			after, is := says(e.ObjectNew)
			return before != after || was != is
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
