package pool

import (
	"fmt"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// WarmupFailures remembers the warm-ups that failed, for launches to back off. The nodes controller
// records them. The pools controller reads them and writes them to the status of the pool, from
// which the next process goes on. The zero value is ready.
type WarmupFailures struct {
	// mu guards pools.
	mu    sync.Mutex
	pools map[v1alpha1.PoolName]*v1alpha1.WarmupFailure
}

// of returns the last failure of the pool, nil for none. The first one that this process knows of
// is that of the status. The caller holds mu.
func (w *WarmupFailures) of(pool *v1alpha1.NodePool) *v1alpha1.WarmupFailure {
	name := v1alpha1.PoolName(pool.Name)
	last, known := w.pools[name]
	if !known {
		last = pool.Status.LastWarmupFailure.DeepCopy()
		w.set(name, last)
	}
	return last
}

func (w *WarmupFailures) set(name v1alpha1.PoolName, last *v1alpha1.WarmupFailure) {
	if w.pools == nil {
		w.pools = map[v1alpha1.PoolName]*v1alpha1.WarmupFailure{}
	}
	w.pools[name] = last
}

// Failed takes in the failed warm-up of an instance that was launched at the given time. Instances
// that were launched before the last failure tell nothing new: those that were launched together
// fail together, and count once.
func (w *WarmupFailures) Failed(pool *v1alpha1.NodePool, f v1alpha1.WarmupFailure, launched time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.of(pool)
	f.Count = 1
	if last != nil && last.Hash == f.Hash {
		if launched.Before(last.Time.Time) {
			return
		}
		f.Count = last.Count + 1
	}
	w.set(v1alpha1.PoolName(pool.Name), &f)
}

// Completed forgets the failures of instances that were launched from the same class and template.
func (w *WarmupFailures) Completed(pool *v1alpha1.NodePool, hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.of(pool); last != nil && last.Hash == hash {
		w.set(v1alpha1.PoolName(pool.Name), nil)
	}
}

// last returns the last failure of the pool for its status, and since when launches of the given
// class and template fail, nil where they do not.
func (w *WarmupFailures) last(pool *v1alpha1.NodePool, hash string) (last, failing *v1alpha1.WarmupFailure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last = w.of(pool).DeepCopy()
	if last != nil && last.Hash == hash {
		failing = last
	}
	return last, failing
}

// forget drops a pool that is gone.
func (w *WarmupFailures) forget(pool v1alpha1.PoolName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pools, pool)
}

// backoffUntil is when the next instance may be launched after the failure.
func backoffUntil(f *v1alpha1.WarmupFailure) time.Time {
	return f.Time.Add(plan.WarmupBackoff(f.Count))
}

// explain words the failure for the conditions of the pool.
func explain(f *v1alpha1.WarmupFailure) string {
	where := ""
	if f.Zone != "" {
		where = " in " + f.Zone
	}
	return fmt.Sprintf("%d warm-ups in a row failed, the last one of instance %s%s: %s. The next launch comes after %s",
		f.Count, f.InstanceID, where, f.Message, backoffUntil(f).UTC().Format(time.RFC3339))
}
