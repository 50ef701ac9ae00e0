package pool

import (
	"math"
	"reflect"
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
	// phases are those of the last ones whose phases are known, the oldest first.
	phases []phaseTimes
	// shown is what the status says of them since the given time; nil before the first.
	shown *v1alpha1.StartSeconds
	since time.Time
}

// phaseTimes are how long each phase of one start took.
type phaseTimes map[v1alpha1.StartPhase]time.Duration

// of returns what is known of the pool. What this process knows first is what the status says. The
// caller holds mu.
func (s *StartTimes) of(pool *v1alpha1.NodePool) *startTimes {
	name := v1alpha1.PoolName(pool.Name)
	if s.pools[name] == nil {
		if s.pools == nil {
			s.pools = map[v1alpha1.PoolName]*startTimes{}
		}
		was := pool.Status.StartSeconds
		s.pools[name] = &startTimes{took: startsLike(was), phases: phasesLike(was), shown: was.DeepCopy()}
	}
	return s.pools[name]
}

// Add takes in a start that has ended. phases is nil where they are not known.
func (s *StartTimes) Add(pool *v1alpha1.NodePool, took time.Duration,
	phases map[v1alpha1.StartPhase]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(pool)
	t.took = lastOf(append(t.took, took))
	if phases != nil {
		t.phases = lastOf(append(t.phases, phases))
	}
}

// lastOf drops the oldest ones above startsKept.
func lastOf[T any](starts []T) []T { return slices.Delete(starts, 0, max(0, len(starts)-startsKept)) }

// figures are what the status is to say now.
func (s *StartTimes) figures(pool *v1alpha1.NodePool, now time.Time) *v1alpha1.StartSeconds {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(pool)
	if len(t.took) > 0 && now.Sub(t.since) >= startsShownEvery {
		fresh := startSeconds(t.took)
		fresh.Phases = phaseSeconds(t.phases)
		if t.shown == nil || !reflect.DeepEqual(*t.shown, fresh) {
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

// phaseSeconds describes the phases, in their order; nil where none are known.
func phaseSeconds(starts []phaseTimes) []v1alpha1.StartPhaseSeconds {
	if len(starts) == 0 {
		return nil
	}
	var out []v1alpha1.StartPhaseSeconds
	for _, phase := range v1alpha1.StartPhases() {
		sorted := make([]time.Duration, len(starts))
		for i := range starts {
			sorted[i] = starts[i][phase]
		}
		slices.Sort(sorted)
		at := func(percent int) int32 {
			return int32(math.Round(sorted[rank(percent, len(sorted))].Seconds())) //nolint:gosec // a day at most
		}
		out = append(out, v1alpha1.StartPhaseSeconds{Name: phase, P50: at(50), P95: at(95)})
	}
	return out
}

// rank is the index of the percentile among n sorted values: the first that so many percent do not
// exceed.
func rank(percent, n int) int { return (percent*n+99)/100 - 1 }

// startsLike makes up starts with the given figures, for the process that did not see them itself.
func startsLike(figures *v1alpha1.StartSeconds) []time.Duration {
	if figures == nil {
		return nil
	}
	return durationsLike(figures.P50, figures.P95, min(int(figures.Count), startsKept))
}

// phasesLike makes up the phases of such starts.
func phasesLike(figures *v1alpha1.StartSeconds) []phaseTimes {
	if figures == nil || len(figures.Phases) == 0 {
		return nil
	}
	out := make([]phaseTimes, min(int(figures.Count), startsKept))
	for i := range out {
		out[i] = phaseTimes{}
	}
	for _, f := range figures.Phases {
		for i, took := range durationsLike(f.P50, f.P95, len(out)) {
			out[i][f.Name] = took
		}
	}
	return out
}

// durationsLike makes up n durations with the given percentiles.
func durationsLike(p50, p95 int32, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(p50) * time.Second
		if i > rank(50, n) {
			out[i] = time.Duration(p95) * time.Second
		}
	}
	return out
}
