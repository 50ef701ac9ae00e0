package scaler

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// warmups remembers the warm-ups that failed, for launches to back off. The nodes controller
// records them. The pools controller reads them and writes them to the status of the pool, from
// which the next process goes on. The zero value is ready.
type warmups struct {
	// mu guards pools.
	mu    sync.Mutex
	pools map[v1alpha1.PoolName]*v1alpha1.WarmupFailure
}

// of returns the last failure of the pool, nil for none. The first one that this process knows of
// is that of the status. The caller holds mu.
func (w *warmups) of(pool *v1alpha1.NodePool) *v1alpha1.WarmupFailure {
	name := v1alpha1.PoolName(pool.Name)
	last, known := w.pools[name]
	if !known {
		last = pool.Status.LastWarmupFailure.DeepCopy()
		w.set(name, last)
	}
	return last
}

func (w *warmups) set(name v1alpha1.PoolName, last *v1alpha1.WarmupFailure) {
	if w.pools == nil {
		w.pools = map[v1alpha1.PoolName]*v1alpha1.WarmupFailure{}
	}
	w.pools[name] = last
}

// failed takes in the failed warm-up of an instance that was launched at the given time. Instances
// that were launched before the last failure tell nothing new: those that were launched together
// fail together, and count once.
func (w *warmups) failed(pool *v1alpha1.NodePool, f v1alpha1.WarmupFailure, launched time.Time) {
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

// completed forgets the failures of instances that were launched from the same class and template.
func (w *warmups) completed(pool *v1alpha1.NodePool, hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.of(pool); last != nil && last.Hash == hash {
		w.set(v1alpha1.PoolName(pool.Name), nil)
	}
}

// last returns the last failure of the pool for its status, and since when launches of the given
// class and template fail, nil where they do not.
func (w *warmups) last(pool *v1alpha1.NodePool, hash string) (last, failing *v1alpha1.WarmupFailure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last = w.of(pool).DeepCopy()
	if last != nil && last.Hash == hash {
		failing = last
	}
	return last, failing
}

// forget drops a pool that is gone.
func (w *warmups) forget(pool v1alpha1.PoolName) {
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

// failureOf makes the record of a failed warm-up.
func failureOf(g *gathered, reason, message string, now time.Time) v1alpha1.WarmupFailure {
	if words := g.instance.StateReason; words != "" && g.instance.gone() {
		message += ": " + words
	}
	return v1alpha1.WarmupFailure{
		Time: metav1.NewTime(now), InstanceID: g.instance.ID, Zone: g.instance.Zone,
		Reason: reason, Message: shortened(message), Hash: launchKey(g),
	}
}

// launchKey is the class and the template that the instance was launched from.
func launchKey(g *gathered) string {
	n := g.node
	if n == nil {
		n = &corev1.Node{}
	}
	return originOf(g.instance, n).key()
}
