package pool

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	// startsKept bounds the starts that status.startSeconds describes: enough for its 95th percentile,
	// few enough to follow a change of the machines within a day.
	startsKept = 50
	// startsShownEvery is how often the figures change at most: each change is a write of the status.
	startsShownEvery = time.Minute
)

// StartTimes remembers how long the last starts took. The nodes controller records them. The pools
// controller writes them to the status of the pool, from which the next process goes on, and every
// replica reads there how long a start usually takes. The zero value is ready.
type StartTimes struct {
	// mu guards pools.
	mu    sync.Mutex
	pools map[v1alpha1.PoolName]*startTimes
}

// startTimes are those of one pool.
type startTimes struct {
	// took are the last ones, the oldest first.
	took []time.Duration
	// shown is what the status says of them since the given time; nil before the first.
	shown *v1alpha1.StartSeconds
	since time.Time
}

// of returns what is known of the pool. What this process knows first is what the status says. The
// caller holds mu.
func (s *StartTimes) of(pool *v1alpha1.NodePool) *startTimes {
	name := v1alpha1.PoolName(pool.Name)
	if s.pools[name] == nil {
		if s.pools == nil {
			s.pools = map[v1alpha1.PoolName]*startTimes{}
		}
		was := pool.Status.StartSeconds
		s.pools[name] = &startTimes{took: startsLike(was), shown: was.DeepCopy()}
	}
	return s.pools[name]
}

// Add takes in a start that has ended.
func (s *StartTimes) Add(pool *v1alpha1.NodePool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(pool)
	t.took = append(t.took, took)
	if more := len(t.took) - startsKept; more > 0 {
		t.took = slices.Delete(t.took, 0, more)
	}
}

// figures are what the status is to say now.
func (s *StartTimes) figures(pool *v1alpha1.NodePool, now time.Time) *v1alpha1.StartSeconds {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(pool)
	if len(t.took) > 0 && now.Sub(t.since) >= startsShownEvery {
		fresh := startSeconds(t.took)
		if t.shown == nil || *t.shown != fresh {
			t.shown, t.since = &fresh, now
		}
	}
	return t.shown.DeepCopy()
}

// forget drops a pool that is gone.
func (s *StartTimes) forget(pool v1alpha1.PoolName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, pool)
}

// startSeconds describes at least one start.
func startSeconds(took []time.Duration) v1alpha1.StartSeconds {
	sorted := slices.Sorted(slices.Values(took))
	at := func(percent int) int32 {
		return int32(math.Ceil(sorted[rank(percent, len(sorted))].Seconds())) //nolint:gosec // a day at most
	}
	return v1alpha1.StartSeconds{P50: at(50), P95: at(95), Count: int32(len(sorted))} //nolint:gosec // at most startsKept
}

// rank is the index of the percentile among n sorted values: the first that so many percent do not
// exceed.
func rank(percent, n int) int { return (percent*n+99)/100 - 1 }

// startsLike makes up starts with the given figures, for the process that did not see them itself.
func startsLike(figures *v1alpha1.StartSeconds) []time.Duration {
	if figures == nil {
		return nil
	}
	n := min(int(figures.Count), startsKept)
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(figures.P50) * time.Second
		if i > rank(50, n) {
			out[i] = time.Duration(figures.P95) * time.Second
		}
	}
	return out
}
