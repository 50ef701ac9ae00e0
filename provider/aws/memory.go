package aws

import (
	"sync"
	"time"
)

// offering is what EC2 runs out of: a type in a zone, where binding is set in that reservation, or
// the addresses of a subnet, whose id then stands for the zone.
type offering struct{ zone, kind, binding string }

const (
	// restFirst and restMost bound how long an offering of which EC2 had none is left alone.
	// Karpenter's provider waits 3 minutes; after a refusal capacity was seen to come back after 1
	// to 50. The claims of claims keeps the same times for starts.
	restFirst = 3 * time.Minute
	restMost  = 30 * time.Minute
)

// memory remembers of which offerings EC2 had none for a launch. Starts are remembered apart, by
// the claims of claims: what is stopped has a better chance than what is new in neither direction.
type memory struct {
	// mu guards `rests`.
	mu    sync.Mutex
	rests map[offering]rest
	// first and most bound a backoff.
	first, most time.Duration
}

type rest struct {
	until time.Time
	step  time.Duration
}

func newMemory(first, most time.Duration) *memory {
	return &memory{rests: map[offering]rest{}, first: first, most: most}
}

// refused notes a refusal: the first rest, doubling to the most. Refusals of calls that were under
// way together are one.
func (m *memory) refused(now time.Time, o offering) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.rests[o]
	switch {
	case known && now.Before(r.until):
		return
	case known && now.Sub(r.until) < 2*m.most:
		r.step = min(2*r.step, m.most)
	default:
		r.step = m.first
	}
	r.until = now.Add(r.step)
	m.rests[o] = r
}

// worked forgets a refusal.
func (m *memory) worked(offerings ...offering) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range offerings {
		delete(m.rests, o)
	}
}

// until is when the last of the offerings may be tried again; zero where all may be now.
func (m *memory) until(now time.Time, offerings ...offering) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var latest time.Time
	for _, o := range offerings {
		if r, known := m.rests[o]; known && now.Before(r.until) && r.until.After(latest) {
			latest = r.until
		}
	}
	return latest
}
