package model

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// worker plays a controller's queue: a key is at work once at a time, what comes meanwhile is done
// afterwards, what fails is retried later.
type worker[K comparable] struct {
	p     *process
	step  func(K) (time.Duration, error)
	first time.Duration
	// queued keys wait for their step, busy ones are in it, dirty ones are queued again at once.
	queued, busy, dirty map[K]bool
	failures            map[K]int
	// later is when a key is queued again by itself.
	later map[K]time.Time
}

func newWorker[K comparable](p *process, first time.Duration, step func(K) (time.Duration, error)) *worker[K] {
	return &worker[K]{
		p: p, step: step, first: first, queued: map[K]bool{}, busy: map[K]bool{}, dirty: map[K]bool{}, failures: map[K]int{},
		later: map[K]time.Time{},
	}
}

func (q *worker[K]) add(k K) {
	switch {
	case q.p.dead || q.queued[k]:
	case q.busy[k]:
		q.dirty[k] = true
	default:
		q.queued[k] = true
		q.p.w.after(q.p.w.between(0, 3*time.Millisecond), func() { q.run(k) })
	}
}

func (q *worker[K]) addAfter(k K, d time.Duration) {
	due := q.p.w.now.Add(d)
	if at, ok := q.later[k]; ok && !at.After(due) {
		return
	}
	q.later[k] = due
	q.p.w.after(d, func() {
		if q.later[k].Equal(due) {
			delete(q.later, k)
			q.add(k)
		}
	})
}

func (q *worker[K]) run(k K) {
	delete(q.queued, k)
	if q.p.dead {
		return
	}
	q.busy[k] = true
	again, err := q.step(k)
	delete(q.busy, k)
	switch {
	case q.p.dead:
		return
	case err != nil:
		q.failures[k]++
		q.addAfter(k, min(q.first<<min(q.failures[k], 12), 30*time.Second))
	default:
		delete(q.failures, k)
		if again > 0 {
			q.addAfter(k, again)
		}
	}
	if q.dirty[k] {
		delete(q.dirty, k)
		q.add(k)
	}
}

// startQueue is one of the Starter's queues on the world's time. Each node in it has a step of the
// Starter that takes it out.
type startQueue struct {
	workqueue.TypedRateLimitingInterface[v1alpha1.NodeName]
	p                   *process
	step                func()
	ready               []v1alpha1.NodeName
	queued, busy, dirty map[v1alpha1.NodeName]bool
	failures            map[v1alpha1.NodeName]int
}

func newStartQueue(p *process, step func()) *startQueue {
	return &startQueue{
		p: p, step: step, queued: map[v1alpha1.NodeName]bool{}, busy: map[v1alpha1.NodeName]bool{},
		dirty: map[v1alpha1.NodeName]bool{}, failures: map[v1alpha1.NodeName]int{},
	}
}

// Add implements workqueue.TypedInterface.
func (q *startQueue) Add(n v1alpha1.NodeName) {
	switch {
	case q.p.dead || q.queued[n]:
	case q.busy[n]:
		q.dirty[n] = true
	default:
		q.queued[n] = true
		q.p.w.after(q.p.w.between(0, 2*time.Millisecond), func() {
			if !q.p.dead {
				q.ready = append(q.ready, n)
				q.step()
			}
		})
	}
}

// Get implements workqueue.TypedInterface.
func (q *startQueue) Get() (v1alpha1.NodeName, bool) {
	n := q.ready[0]
	q.ready = q.ready[1:]
	delete(q.queued, n)
	q.busy[n] = true
	return n, false
}

// Done implements workqueue.TypedInterface.
func (q *startQueue) Done(n v1alpha1.NodeName) {
	delete(q.busy, n)
	if q.dirty[n] {
		delete(q.dirty, n)
		q.Add(n)
	}
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *startQueue) AddAfter(n v1alpha1.NodeName, pause time.Duration) {
	q.p.w.after(pause, func() { q.Add(n) })
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface: 100 ms doubling to 10 s.
func (q *startQueue) AddRateLimited(n v1alpha1.NodeName) {
	pause := min(100*time.Millisecond<<min(q.failures[n], 10), 10*time.Second)
	q.failures[n]++
	q.p.w.after(pause, func() { q.Add(n) })
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *startQueue) Forget(n v1alpha1.NodeName) { delete(q.failures, n) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *startQueue) NumRequeues(n v1alpha1.NodeName) int { return q.failures[n] }
