package nominate

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// openings are the nodes that stay closed until the scheduler may have seen the nominations of
// their pods, where other pods wait that could take the room.
//
// Nothing keeps an order between the scheduler's watches of pods and of nodes: in a burst that of
// pods is late by tenths of a second, and a node that it sees open before the nominations is empty
// to it. So it gives the room to the pods that come first in its queue, those of other nodes. How
// late our watch of pods is tells how late the scheduler's is, but for the time that it takes to
// work on what it sees: on a busy machine both take longer.
//
// A node that opens has the scheduler try the pods of all nodes, and each nomination to a node that
// is still closed is lost, which has it try all pods once more. So nodes that are ready at nearly
// the same time are a group: their pods are nominated together, and they open together. The pods of
// the nodes after them are nominated when that is over.
type openings struct {
	// mu guards what follows, and what is in it.
	mu sync.Mutex
	of map[v1alpha1.NodeName]*opening
	// changed is when the last node was ready, or was opened.
	changed time.Time
}

// opening is one of them.
type opening struct {
	// ready and asked are when it was asked about first and last.
	ready, asked time.Time
	// began is when its group began; zero while it waits for that.
	began time.Time
	// isSent: its nominations are sent; without them its group does not open.
	isSent bool
	// answers are the pods whose nominations were sent, false for those without an answer yet.
	answers map[types.UID]bool
	// unseen are the versions of the nominated pods that our watch has not shown yet.
	unseen map[types.UID]string
	// nominated: there is at least one.
	nominated bool
	// settled is when the scheduler may have worked on what our watch has shown; zero until that has
	// shown all.
	settled time.Time
}

// mayBegin has the node's group begin, or returns when to ask again. due: pods are to be nominated
// to it. mayWait: it may stay closed.
func (s *openings) mayBegin(node v1alpha1.NodeName, due, mayWait bool, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Those that were not asked about again were not opened after all.
	maps.DeleteFunc(s.of, func(_ v1alpha1.NodeName, o *opening) bool { return now.Sub(o.asked) > answerTime })
	o := s.of[node]
	switch {
	case o == nil && !due:
		return 0
	case o == nil:
		o = &opening{ready: now, answers: map[types.UID]bool{}, unseen: map[types.UID]string{}}
		s.of[node], s.changed = o, now
	}
	o.asked = now
	switch {
	case o.hasBegun():
		return 0
	case !due:
		delete(s.of, node)
		return 0
	case !mayWait:
		o.began = now
		return 0
	}
	oldest, onItsWay := o.ready, false
	for _, other := range s.of {
		switch {
		case other.hasBegun():
			onItsWay = true
		case other.ready.Before(oldest):
			oldest = other.ready
		}
	}
	gathering, left := gatherTime-now.Sub(s.changed), mostHeld-now.Sub(oldest)
	switch {
	case left <= 0:
	case gathering > 0:
		return min(gathering, left)
	case onItsWay:
		return min(seenEvery, left)
	}
	for _, next := range s.of {
		if !next.hasBegun() {
			next.began = now
		}
	}
	return 0
}

// sends has the node wait for the nomination of the pod, and is false where it was sent already.
func (s *openings) sends(node v1alpha1.NodeName, pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[node]
	if o == nil {
		return false
	}
	if _, sent := o.answers[pod]; sent {
		return false
	}
	o.answers[pod] = false
	return true
}

// answered takes in that the pod was nominated, and has the version now, or was not: "".
func (s *openings) answered(node v1alpha1.NodeName, pod types.UID, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[node]
	if o == nil {
		return
	}
	o.answers[pod] = true
	if version != "" {
		o.unseen[pod], o.nominated = version, true
	}
}

// wait returns when to ask again about the node, whose nominations are sent; 0 to open it. mayWait:
// it may stay closed.
func (s *openings) wait(node v1alpha1.NodeName, hasSeen func(types.UID, string) bool, mayWait bool,
	now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[node]
	if o == nil {
		return 0
	}
	o.isSent = true
	if wait := o.wait(hasSeen, mayWait, now); wait > 0 {
		return wait
	}
	if left := mostClosed - now.Sub(o.began); o.nominated && mayWait && left > 0 {
		for _, other := range s.of {
			if other.hasBegun() && !other.began.After(o.began) && other.wait(hasSeen, true, now) > 0 {
				return min(seenEvery, left)
			}
		}
	}
	s.end(node, now)
	return 0
}

// opened takes in that the node was opened, whatever it waited for.
func (s *openings) opened(node v1alpha1.NodeName, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[node] != nil {
		s.end(node, now)
	}
}

func (s *openings) end(node v1alpha1.NodeName, now time.Time) {
	delete(s.of, node)
	s.changed = now
}

func (o *opening) hasBegun() bool { return !o.began.IsZero() }

func (o *opening) wait(hasSeen func(types.UID, string) bool, mayWait bool, now time.Time) time.Duration {
	closed := now.Sub(o.began)
	if !o.isSent {
		return max(0, mostClosed-closed)
	}
	for _, answered := range o.answers {
		if !answered && closed < answerTime {
			return min(seenEvery, answerTime-closed)
		}
	}
	if !o.nominated || !mayWait || closed >= mostClosed {
		return 0
	}
	if o.settled.IsZero() {
		if maps.DeleteFunc(o.unseen, hasSeen); len(o.unseen) > 0 {
			return min(seenEvery, mostClosed-closed)
		}
		o.settled = now.Add(max(settleTime, closed))
	}
	return max(0, min(o.settled.Sub(now), mostClosed-closed))
}
