package cluster

import "sync"

// notifyQueue is what is to be told, in the order in which it was added.
type notifyQueue struct {
	// mu guards the fields below, and is held while none is told.
	mu      sync.Mutex
	waiting []func()
	// delivering: a goroutine is at it, and goes on until nothing waits.
	delivering bool
}

func (q *notifyQueue) add(tell func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, tell)
}

// deliver tells what waits, unless another goroutine does: a listener may make a change itself, and
// what follows from that is told when it returns.
func (q *notifyQueue) deliver() {
	for next := q.begin(); next != nil; next = q.next() {
		next()
	}
}

func (q *notifyQueue) begin() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering {
		return nil
	}
	q.delivering = true
	return q.pop()
}

func (q *notifyQueue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pop()
}

// pop takes the next one, nil where none waits. The caller holds mu.
func (q *notifyQueue) pop() func() {
	if len(q.waiting) == 0 {
		q.waiting, q.delivering = nil, false
		return nil
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	return next
}

// unlock releases the cluster state's lock and tells the listeners what follows from what was done
// with it.
func (s *State) unlock() {
	s.mu.Unlock()
	s.notifications.deliver()
}
