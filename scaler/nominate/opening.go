package nominate

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// openings are the nodes that stay closed until the scheduler may have seen the nominations of
// their pods. Nothing keeps an order between its watches of pods and of nodes: in a burst that of
// pods is late by tenths of a second, and a node that it sees open before the nominations is empty
// to it. So it gives the room to the pods that come first in its queue, those of other nodes. How
// late our watch of pods is tells how late the scheduler's is, but for the time that it takes to
// work on what it sees: on a busy machine both take longer. Where no other pod waits, a node opens
// as soon as the writes are answered.
type openings struct {
	// mu guards of and what is in it.
	mu sync.Mutex
	of map[v1alpha1.NodeName]*opening
}

// opening is one of them.
type opening struct {
	began time.Time
	// asked are the pods whose nominations were sent, true for those without an answer yet.
	asked map[types.UID]bool
	// unseen are the versions of the nominated pods that our watch has not shown yet.
	unseen map[types.UID]string
	// nominated: there is at least one.
	nominated bool
	// settled is when the scheduler may have worked on what our watch has shown; zero until that has
	// shown all.
	settled time.Time
}

// begin has the node wait for the nomination of the pod, and is false where it was sent already.
func (s *openings) begin(node v1alpha1.NodeName, pod types.UID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Those that were not asked about again were not opened after all.
	maps.DeleteFunc(s.of, func(_ v1alpha1.NodeName, o *opening) bool { return now.After(o.began.Add(2 * WriteTime)) })
	o := s.of[node]
	if o == nil {
		o = &opening{began: now, asked: map[types.UID]bool{}, unseen: map[types.UID]string{}}
		s.of[node] = o
	}
	if _, sent := o.asked[pod]; sent {
		return false
	}
	o.asked[pod] = true
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
	o.asked[pod] = false
	if version != "" {
		o.unseen[pod], o.nominated = version, true
	}
}

// wait returns when to ask again about the node, 0 to open it. others: pods wait that could take
// the room.
func (s *openings) wait(node v1alpha1.NodeName, hasSeen func(types.UID, string) bool, others bool,
	now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[node]
	if o == nil {
		return 0
	}
	wait := o.wait(hasSeen, others, now)
	if wait == 0 {
		delete(s.of, node)
	}
	return wait
}

func (o *opening) wait(hasSeen func(types.UID, string) bool, others bool, now time.Time) time.Duration {
	closed := now.Sub(o.began)
	for _, open := range o.asked {
		if open && closed < answerTime {
			return min(seenEvery, answerTime-closed)
		}
	}
	if !o.nominated || !others || closed >= mostClosed {
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
