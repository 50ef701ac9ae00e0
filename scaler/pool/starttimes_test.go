package pool

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestStartSecondsOfTheLastStarts: the percentiles are those of the starts that are kept, in whole
// seconds, and the oldest start leaves first.
func TestStartSecondsOfTheLastStarts(t *testing.T) {
	seconds := func(each ...int) []time.Duration {
		var out []time.Duration
		for _, s := range each {
			out = append(out, time.Duration(s)*time.Second)
		}
		return out
	}
	upTo := func(n int) []time.Duration {
		var out []time.Duration
		for i := range n {
			out = append(out, time.Duration(i+1)*time.Second)
		}
		return out
	}
	for name, c := range map[string]struct {
		took []time.Duration
		want v1alpha1.StartSeconds
	}{
		"one":                        {seconds(8), v1alpha1.StartSeconds{P50: 8, P95: 8, Count: 1}},
		"a part of a second":         {[]time.Duration{200 * time.Millisecond}, v1alpha1.StartSeconds{P50: 1, P95: 1, Count: 1}},
		"in any order":               {seconds(30, 10, 20), v1alpha1.StartSeconds{P50: 20, P95: 30, Count: 3}},
		"one of twenty is slow":      {append(upTo(19), 300*time.Second), v1alpha1.StartSeconds{P50: 10, P95: 19, Count: 20}},
		"the oldest are forgotten":   {append(seconds(300, 300, 300), upTo(50)...), v1alpha1.StartSeconds{P50: 25, P95: 48, Count: 50}},
		"as many as are kept, alike": {append(upTo(0), upTo(50)...), v1alpha1.StartSeconds{P50: 25, P95: 48, Count: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			var s StartTimes
			pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			for _, took := range c.took {
				s.Add(pool, took, nil)
			}
			if diff := cmp.Diff(&c.want, s.figures(pool, time.Unix(1000, 0))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStartSecondsChangeOnceAMinute: the first figure is shown at once, the next ones a minute
// after the last change, and a pool that is forgotten begins anew.
func TestStartSecondsChangeOnceAMinute(t *testing.T) {
	var s StartTimes
	pool, at := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, time.Unix(1000, 0)
	wants := func(after time.Duration, want *v1alpha1.StartSeconds) {
		t.Helper()
		if diff := cmp.Diff(want, s.figures(pool, at.Add(after))); diff != "" {
			t.Errorf("after %s: %s", after, diff)
		}
	}
	wants(0, nil)
	s.Add(pool, 5*time.Second, nil)
	first := &v1alpha1.StartSeconds{P50: 5, P95: 5, Count: 1}
	wants(time.Second, first)
	s.Add(pool, 9*time.Second, nil)
	wants(60*time.Second, first)
	wants(61*time.Second, &v1alpha1.StartSeconds{P50: 5, P95: 9, Count: 2})
	s.forget("p")
	wants(62*time.Second, nil)
}

// TestTheNextProcessGoesOnFromTheStatus: it shows the same figures until it has seen starts itself,
// and these move them little by little.
func TestTheNextProcessGoesOnFromTheStatus(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, was := range []v1alpha1.StartSeconds{
		{P50: 4, P95: 4, Count: 1}, {P50: 4, P95: 9, Count: 2}, {P50: 4, P95: 9, Count: 3},
		{P50: 12, P95: 80, Count: 19}, {P50: 12, P95: 80, Count: 50},
	} {
		pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.NodePoolStatus{StartSeconds: &was}}
		if got := startSeconds(startsLike(&was)); !reflect.DeepEqual(got, was) {
			t.Errorf("starts that were made up for %+v are described as %+v", was, got)
		}
		var s StartTimes
		if diff := cmp.Diff(&was, s.figures(pool, at)); diff != "" {
			t.Errorf("%+v: %s", was, diff)
		}
		for range was.Count {
			s.Add(pool, 2*time.Second, nil)
		}
		if got := s.figures(pool, at.Add(time.Hour)); got.P50 > was.P50 || got.Count != min(2*was.Count, startsKept) {
			t.Errorf("%+v and as many starts of 2 s: %+v", was, *got)
		}
	}
}

// TestPhaseSeconds: each phase has its own percentiles, to the nearest second. Starts whose phases
// are not known count in the whole alone, and the next process goes on from the figures.
func TestPhaseSeconds(t *testing.T) {
	var s StartTimes
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i := range 20 {
		phases := map[v1alpha1.StartPhase]time.Duration{v1alpha1.PhaseCall: 400 * time.Millisecond,
			v1alpha1.PhaseMachine: time.Duration(i+1) * time.Second, v1alpha1.PhaseNetwork: 2600 * time.Millisecond}
		if i >= 18 {
			phases[v1alpha1.PhaseNetwork] = time.Minute
		}
		s.Add(pool, time.Minute, phases)
	}
	for range 5 {
		s.Add(pool, 2*time.Minute, nil)
	}
	want := &v1alpha1.StartSeconds{P50: 60, P95: 120, Count: 25, Phases: []v1alpha1.StartPhaseSeconds{
		{Name: "call"}, {Name: "machine", P50: 10, P95: 19}, {Name: "boot"}, {Name: "ready"},
		{Name: "network", P50: 3, P95: 60}, {Name: "devices"}, {Name: "open"},
	}}
	got := s.figures(pool, time.Unix(1000, 0))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	pool.Status.StartSeconds = got
	var next StartTimes
	next.Add(pool, time.Minute, nil)
	if diff := cmp.Diff(want.Phases, next.figures(pool, time.Unix(1000, 0)).Phases); diff != "" {
		t.Errorf("by the next process: %s", diff)
	}
	for range startsKept {
		next.Add(pool, time.Second, map[v1alpha1.StartPhase]time.Duration{v1alpha1.PhaseOpen: time.Second})
	}
	last := next.figures(pool, time.Unix(2000, 0)).Phases
	if last[1].P95 != 0 || last[6].P50 != 1 {
		t.Errorf("after as many starts as are kept: %+v", last)
	}
}
