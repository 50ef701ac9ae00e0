package model

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// A person pauses a pool, and resumes it a while later.

// pauseKnown is how long after its annotation was written a pool may still do what was decided
// before, while watches do not lag.
const pauseKnown = 5 * time.Second

func pauseOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"pause": {0, [4]int{1, 180}, (*World).pausePool}, // drawn by withPauses
	}
}

// withPauses puts pauses of pools into a quarter of the traces. Dice of its own leave the others as
// they were.
func withPauses(t Trace) Trace {
	if t.Seed%4 != 3 {
		return t
	}
	dice, all := rand.New(rand.NewPCG(t.Seed, 0x632be59b)), operations() //nolint:gosec // dice, not secrets
	for range 1 + dice.IntN(3) {
		at := 2 + dice.IntN(len(t.Operations)-1)
		t.Operations = slices.Insert(t.Operations, at, drawn(dice, all, "pause", someWait(dice)))
	}
	return t
}

// pausePool pauses a pool for some seconds.
func (w *World) pausePool(a [4]int) {
	name := poolNamed(a[0])
	w.setPaused(name, true)
	w.after(secondsOf(a[1]), func() { w.setPaused(name, false) })
}

// setPaused writes the annotation or removes it, as `kubectl annotate` does: the generation stays.
func (w *World) setPaused(name string, paused bool) {
	p := w.api.pool(name)
	if p == nil || p.IsPaused() == paused {
		return
	}
	w.note("pool %s, paused: %v", name, paused)
	p = p.DeepCopy()
	if paused {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationPaused, "true")
	} else {
		delete(p.Annotations, v1alpha1.AnnotationPaused)
	}
	w.api.put(kindPool, p)
}

// pauseRules watch that nothing begins in a paused pool.
type pauseRules struct {
	// paused is when a pool was paused that is so still.
	paused map[string]time.Time
}

// pauses notes when a pool is paused and resumed.
func (r *rules) pauses(old, p *v1alpha1.NodePool) {
	was := old != nil && old.IsPaused()
	switch is := p != nil && p.IsPaused(); {
	case is && !was:
		r.paused[p.Name] = r.w.now
	case was && !is:
		if p == nil {
			r.whilePaused(old.Name, "the pool is gone")
		}
		delete(r.paused, old.Name)
		r.disturb() // what has waited begins now
	}
}

// isPaused reports whether each process has known for a while that the pool is paused.
func (r *rules) isPaused(pool string) bool {
	since, is := r.paused[pool]
	return is && r.w.now.Sub(since) > pauseKnown+r.w.trouble.watch
}

// whilePaused is about something that began in the pool.
func (r *rules) whilePaused(pool, format string, args ...any) {
	if r.isPaused(pool) {
		r.w.breaks("paused", "pool "+pool+" is paused, and "+format, args...)
	}
}

// begins checks a Node that comes into a state.
func (r *rules) begins(old, n *corev1.Node) {
	if old == nil || stateOf(old) == stateOf(n) {
		return
	}
	pool := poolNameOf(n)
	switch stateOf(n) {
	case v1alpha1.StateStarting:
		r.whilePaused(pool, "%s starts", n.Name)
	case v1alpha1.StateStopping:
		if stateOf(old) == v1alpha1.StateRunning {
			r.whilePaused(pool, "%s is drained", n.Name)
		}
	case v1alpha1.StateTerminating:
		if i := r.w.machineOf(n); i != nil && !i.ending() { // others may have ended it
			r.whilePaused(pool, "%s is to be terminated", n.Name)
		}
	case v1alpha1.StateWarmup:
		if stateOf(old) == v1alpha1.StateStandby {
			r.whilePaused(pool, "%s pulls images", n.Name)
		}
	case v1alpha1.StateStandby, v1alpha1.StateRunning:
	}
}

// resumeAll ends all pauses.
func (w *World) resumeAll() {
	for _, p := range w.api.pools() {
		w.setPaused(p.Name, false)
	}
}
