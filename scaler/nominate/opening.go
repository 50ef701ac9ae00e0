package nominate

import (
	"maps"
	"slices"
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
// work on what it sees: on a busy machine both take longer. A node opens at once where no other pod
// waits.
type openings struct {
	// mu guards of.
	mu sync.Mutex
	of map[v1alpha1.NodeName]*opening
}

// opening is one of them.
type opening struct {
	began time.Time
	// unseen are the versions of the pods that our watch has not shown yet.
	unseen map[types.UID]string
	// ends is when the node opens, as far as is known.
	ends time.Time
}

// begin has the node wait until the pods are seen in these versions. One that waits already does
// not wait for them: pods of a workload may come one after another for long.
func (s *openings) begin(node v1alpha1.NodeName, written map[types.UID]string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Those that were not asked about again were not opened after all.
	maps.DeleteFunc(s.of, func(_ v1alpha1.NodeName, o *opening) bool { return now.After(o.began.Add(2 * mostClosed)) })
	if s.of[node] == nil {
		s.of[node] = &opening{began: now, unseen: written, ends: now.Add(mostClosed)}
	}
}

// wait returns when to ask again about the node, 0 to open it.
func (s *openings) wait(node v1alpha1.NodeName, hasSeen func(types.UID, string) bool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[node]
	if o == nil {
		return 0
	}
	if len(o.unseen) > 0 {
		if maps.DeleteFunc(o.unseen, hasSeen); len(o.unseen) == 0 {
			settled := now.Add(max(settleTime, now.Sub(o.began)))
			o.ends = slices.MinFunc([]time.Time{o.ends, settled}, time.Time.Compare)
		}
	}
	left := o.ends.Sub(now)
	switch {
	case left <= 0:
		delete(s.of, node)
		return 0
	case len(o.unseen) > 0:
		return min(left, seenEvery)
	}
	return left
}
