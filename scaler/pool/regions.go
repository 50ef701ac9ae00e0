package pool

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// regionOf is the region of the pool's class. It is false where the class cannot be read, or has
// none.
func (c *Reconciler) regionOf(ctx context.Context, pool *v1alpha1.NodePool) (string, bool) {
	class, _, err := c.Classes.Get(ctx, pool.Spec.Template.NodeClassRef)
	if err != nil {
		return "", false
	}
	r, ok := class.(nodeclass.Regional)
	if !ok {
		return "", false
	}
	return r.RegionName(), true
}

// held reports whether the pool must launch nothing because it is paused, or because it is not
// known what it has in its region.
func (c *Reconciler) held(ctx context.Context, pool *v1alpha1.NodePool) bool {
	if pool.IsPaused() {
		return true
	}
	region, ok := c.regionOf(ctx, pool)
	return ok && c.Inventory.Regions.Unknown(region)
}

// regionDegraded says that a region fails that the pool needs: that of its class, or of its
// instances.
func (c *Reconciler) regionDegraded(ctx context.Context, pool *v1alpha1.NodePool) (v1alpha1.Reason, string) {
	if region, ok := c.regionOf(ctx, pool); ok {
		if f, failing := c.Inventory.Regions.Told(region); failing {
			return v1alpha1.ReasonRegionUnavailable, f.Message()
		}
	}
	for _, e := range c.Inventory.Of(v1alpha1.PoolName(pool.Name)) {
		if e.Region == "" {
			continue
		}
		if f, failing := c.Inventory.Regions.Told(e.Region); failing {
			return v1alpha1.ReasonRegionUnavailable, f.Message() + "; the pool has instances there"
		}
	}
	return "", ""
}

// reportRegion says that the pool's region fails while no sweep has shown anything yet.
func (c *Reconciler) reportRegion(ctx context.Context, pool *v1alpha1.NodePool) error {
	reason, words := c.regionDegraded(ctx, pool)
	if reason == "" {
		return nil
	}
	before := pool.DeepCopy()
	meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: string(reason), Message: words,
		ObservedGeneration: pool.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, pool.Status) {
		return nil
	}
	return client.IgnoreNotFound(conflict.Ignore(c.Client.Status().Update(ctx, pool)))
}

// wholeFor reports whether the error of a list of the pool's instances is about other regions than
// the pool's, so that the list is whole for the pool.
func (c *Reconciler) wholeFor(ctx context.Context, pool *v1alpha1.NodePool, err error) bool {
	partial, ok := provider.AsPartialList(err)
	if !ok || partial.Answered == 0 {
		return false
	}
	region, ok := c.regionOf(ctx, pool)
	if !ok {
		return false // it is not known where its instances are
	}
	for _, f := range partial.Failed {
		if f.Name == region || f.Default && region == "" {
			return false
		}
	}
	return true
}
