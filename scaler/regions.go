package scaler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// regionGrace is how long a region that has answered before may fail until its classes and pools
// say so: clouds have troubles of a few seconds.
const regionGrace = 30 * time.Second

// regions remembers which regions of the cloud do not answer. The zero value is ready.
type regions struct {
	// mu guards the fields below.
	mu sync.RWMutex
	// failing are by name those that did not answer the last sweep.
	failing map[string]failingRegion
}

// failingRegion is a region that does not answer, and since when.
type failingRegion struct {
	provider.FailedRegion
	since time.Time
	// told: classes and pools say so.
	told bool
}

// words say which region fails, and why.
func (f failingRegion) words() string {
	return fmt.Sprintf("region %s does not answer: %v", f.Name, f.Err)
}

// note takes in what a sweep says about the regions; nil: all of them answered. It reports whether
// classes and pools have something else to say now.
func (r *regions) note(partial *provider.PartialListError, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, changed := map[string]failingRegion{}, false
	if partial != nil {
		for _, f := range partial.Failed {
			last, known := r.failing[f.Name]
			n := failingRegion{FailedRegion: f, since: now}
			if known {
				// That some other list of the region was answered tells the sweeps nothing.
				n.since, n.Unknown = last.since, last.Unknown || f.Unknown
			}
			n.told = last.told || n.Unknown || now.Sub(n.since) >= regionGrace
			changed = changed || n.told != last.told
			next[f.Name] = n
		}
	}
	for name, last := range r.failing {
		if _, still := next[name]; !still && last.told {
			changed = true
		}
	}
	r.failing = next
	return changed
}

// get returns the failure of a region; "" is the one that classes mean that name none.
func (r *regions) get(name string) (failingRegion, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if name != "" {
		f, ok := r.failing[name]
		return f, ok
	}
	for _, f := range r.failing {
		if f.Default {
			return f, true
		}
	}
	return failingRegion{}, false
}

// told is get where the region has failed for long enough to say so.
func (r *regions) told(name string) (failingRegion, bool) {
	f, ok := r.get(name)
	return f, ok && f.told
}

// lacks reports whether the last sweep lacked the instance's region, so that it says nothing about
// the instance.
func (r *regions) lacks(i *provider.Instance) bool {
	if i.Region == "" {
		return false
	}
	_, ok := r.get(i.Region)
	return ok
}

// unknown reports whether it is not known what is in the region.
func (r *regions) unknown(name string) bool {
	f, ok := r.get(name)
	return ok && f.Unknown
}

// eachLacking calls f with every instance that the last sweep said nothing about.
func (i *inventory) eachLacking(f func(entry)) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if !e.gone() && i.regions.lacks(&e.Instance) {
			f(e)
		}
	}
}

// regional is a class that names a region; "" is the one that the cloud's configuration names.
type regional interface{ RegionName() string }

// regionOf is the region of the pool's class. It is false where the class cannot be read, or has
// none.
func (c *pools) regionOf(ctx context.Context, pool *v1alpha1.NodePool) (string, bool) {
	class, _, err := c.classes.get(ctx, pool.Spec.Template.NodeClassRef)
	if err != nil {
		return "", false
	}
	r, ok := class.(regional)
	if !ok {
		return "", false
	}
	return r.RegionName(), true
}

// held reports whether the pool must launch nothing because it is not known what it has in its
// region.
func (c *pools) held(ctx context.Context, pool *v1alpha1.NodePool) bool {
	region, ok := c.regionOf(ctx, pool)
	return ok && c.inventory.regions.unknown(region)
}

// regionDegraded says that a region fails that the pool needs: that of its class, or of its
// instances.
func (c *pools) regionDegraded(ctx context.Context, pool *v1alpha1.NodePool) (v1alpha1.Reason, string) {
	if region, ok := c.regionOf(ctx, pool); ok {
		if f, failing := c.inventory.regions.told(region); failing {
			return v1alpha1.ReasonRegionUnavailable, f.words()
		}
	}
	for _, e := range c.inventory.of(v1alpha1.PoolName(pool.Name)) {
		if e.Region == "" {
			continue
		}
		if f, failing := c.inventory.regions.told(e.Region); failing {
			return v1alpha1.ReasonRegionUnavailable, f.words() + "; the pool has instances there"
		}
	}
	return "", ""
}

// reportRegion says that the pool's region fails while no sweep has shown anything yet.
func (c *pools) reportRegion(ctx context.Context, pool *v1alpha1.NodePool) error {
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
	return client.IgnoreNotFound(ignoreConflict(c.client.Status().Update(ctx, pool)))
}

// wholeFor reports whether the error of a list of the pool's instances is about other regions than
// the pool's, so that the list is whole for the pool.
func (c *pools) wholeFor(ctx context.Context, pool *v1alpha1.NodePool, err error) bool {
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

// unavailable is the failure of the class's region, where it is to be told.
func (c *classes) unavailable(class v1alpha1.NodeClass) (failingRegion, bool) {
	r, ok := class.(regional)
	if !ok || c.regions == nil {
		return failingRegion{}, false
	}
	return c.regions.told(r.RegionName())
}

// setupRegions makes the controller look at every class of the kind when a region begins or ceases
// to fail.
func (c *classes) setupRegions(woken <-chan event.TypedGenericEvent[struct{}]) source.Source {
	return source.TypedChannel(woken, handler.TypedEnqueueRequestsFromMapFunc(c.everyOne))
}

// everyOne leads to the classes that were resolved so far.
func (c *classes) everyOne(context.Context, struct{}) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []reconcile.Request
	for _, name := range slices.Sorted(maps.Keys(c.looks)) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return out
}
