package view

import "sync"

// queue is what is to be told, in the order in which it was added.
type queue struct {
	// mu guards the fields below, and is held while none is told.
	mu      sync.Mutex
	waiting []func()
	// telling: somebody is at it, and goes on until nothing waits.
	telling bool
}

func (q *queue) add(tell func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, tell)
}

// tell tells what waits, unless somebody is at it: a listener may make a change itself, and what
// follows from that is told when it returns.
func (q *queue) tell() {
	for next := q.begin(); next != nil; next = q.next() {
		next()
	}
}

func (q *queue) begin() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.telling {
		return nil
	}
	q.telling = true
	return q.pop()
}

func (q *queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pop()
}

// pop takes the next one, nil where none waits. The caller holds mu.
func (q *queue) pop() func() {
	if len(q.waiting) == 0 {
		q.waiting, q.telling = nil, false
		return nil
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	return next
}

// unlock releases the view's lock and tells the listeners what follows from what was done with it.
func (v *View) unlock() {
	v.mu.Unlock()
	v.told.tell()
}
