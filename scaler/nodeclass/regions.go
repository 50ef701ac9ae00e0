package nodeclass

import (
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// Regional is a class that names a region; "" is the one that the cloud's configuration names.
type Regional interface{ RegionName() string }

// unavailable is the failure of the class's region, where it is to be told.
func (c *Reconciler) unavailable(class v1alpha1.NodeClass) (inventory.FailingRegion, bool) {
	r, ok := class.(Regional)
	if !ok || c.Regions == nil {
		return inventory.FailingRegion{}, false
	}
	return c.Regions.Told(r.RegionName())
}

// setupRegions makes the controller look at every class of the kind when a region begins or ceases
// to fail.
func (c *Reconciler) setupRegions(woken <-chan event.TypedGenericEvent[struct{}]) source.Source {
	return source.TypedChannel(woken, handler.TypedEnqueueRequestsFromMapFunc(c.everyOne))
}

// everyOne leads to the classes that were resolved so far.
func (c *Reconciler) everyOne(context.Context, struct{}) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []reconcile.Request
	for _, name := range slices.Sorted(maps.Keys(c.looks)) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return out
}
