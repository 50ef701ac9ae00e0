package model

import (
	"time"

	"k8s.io/client-go/util/workqueue"
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

// stepQueue is a queue of the Starter or the Nominator on the world's time. Each key in it has a
// step of theirs that takes it out.
type stepQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	p                   *process
	step                func()
	ready               []K
	queued, busy, dirty map[K]bool
	failures            map[K]int
}

func newStepQueue[K comparable](p *process, step func()) *stepQueue[K] {
	return &stepQueue[K]{
		p: p, step: step, queued: map[K]bool{}, busy: map[K]bool{}, dirty: map[K]bool{}, failures: map[K]int{},
	}
}

// Add implements workqueue.TypedInterface.
func (q *stepQueue[K]) Add(k K) {
	switch {
	case q.p.dead || q.queued[k]:
	case q.busy[k]:
		q.dirty[k] = true
	default:
		q.queued[k] = true
		q.p.w.after(q.p.w.between(0, 2*time.Millisecond), func() {
			if !q.p.dead {
				q.ready = append(q.ready, k)
				q.step()
			}
		})
	}
}

// Get implements workqueue.TypedInterface.
func (q *stepQueue[K]) Get() (K, bool) {
	k := q.ready[0]
	q.ready = q.ready[1:]
	delete(q.queued, k)
	q.busy[k] = true
	return k, false
}

// Done implements workqueue.TypedInterface.
func (q *stepQueue[K]) Done(k K) {
	delete(q.busy, k)
	if q.dirty[k] {
		delete(q.dirty, k)
		q.Add(k)
	}
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *stepQueue[K]) AddAfter(k K, pause time.Duration) {
	q.p.w.after(pause, func() { q.Add(k) })
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface: 100 ms doubling to 10 s.
func (q *stepQueue[K]) AddRateLimited(k K) {
	pause := min(100*time.Millisecond<<min(q.failures[k], 10), 10*time.Second)
	q.failures[k]++
	q.p.w.after(pause, func() { q.Add(k) })
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *stepQueue[K]) Forget(k K) { delete(q.failures, k) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *stepQueue[K]) NumRequeues(k K) int { return q.failures[k] }
