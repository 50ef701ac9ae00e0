package limiter

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// admitted are the times, from the start, at which n callers that all ask now, one after the other,
// may call.
func admitted(t *testing.T, l *Limiter, n int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var at []time.Duration
	zero := time.Now()
	for range n {
		wg.Go(func() {
			if err := l.Wait(t.Context(), StartInstances); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(zero).Round(time.Millisecond))
		})
		synctest.Wait()
	}
	wg.Wait()
	return at
}

func starts(burst int, perSecond float64) *Limiter {
	return New(map[Operation]Limit{StartInstances: {burst, perSecond}})
}

func TestBurstAtOnceThenTheRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := []time.Duration{0, 0, 0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond}
		l := starts(5, 2)
		if diff := cmp.Diff(want, admitted(t, l, 8)); diff != "" {
			t.Errorf("calls at (-want +got):\n%s", diff)
		}
		<-time.After(time.Hour) // saves up no more than the burst
		if diff := cmp.Diff(want[:6], admitted(t, l, 6)); diff != "" {
			t.Errorf("calls after an hour at (-want +got):\n%s", diff)
		}
	})
}

func TestOperationsDoNotHoldEachOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(map[Operation]Limit{StartInstances: {1, 0.001}, StopInstances: {1, 1}, CreateTags: {}})
		zero := time.Now()
		for _, op := range []Operation{StartInstances, StopInstances, CreateTags, CreateTags, DescribeInstances,
			DescribeInstances} {
			if err := l.Wait(t.Context(), op); err != nil {
				t.Error(err)
			}
		}
		if waited := time.Since(zero); waited > 0 {
			t.Errorf("waited %s; start and stop have a token each, the others no limit", waited)
		}
	})
}

func TestWhoAskedFirstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := starts(1, 1)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if err := l.Wait(t.Context(), StartInstances); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait() // it has its place before the next one asks
		}
		wg.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// A caller that gives up, in the queue or at its head, takes no token along and lets the next one
// go.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := starts(1, 0.1)
		if err := l.Wait(t.Context(), StartInstances); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := l.Wait(ctx, StartInstances); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want the context's", err)
				}
			})
		}
		wg.Wait()
		zero := time.Now()
		if err := l.Wait(t.Context(), StartInstances); err != nil {
			t.Error(err)
		}
		if waited := time.Since(zero).Round(time.Millisecond); waited != 6*time.Second {
			t.Errorf("the next one waited %s, want the 6 s that were left of 10 s", waited)
		}
	})
}

// partAfter is the part of its rate that the bucket uses after the refusals at the given times and
// a while without any.
func partAfter(t *testing.T, quiet time.Duration, refusals ...time.Duration) float64 {
	t.Helper()
	b := newBucket(Limit{Burst: 16, PerSecond: 16})
	zero := time.Now()
	last := zero
	for _, at := range refusals {
		last = zero.Add(at)
		b.recover(last)
		b.halve(last)
	}
	b.recover(last.Add(quiet))
	rate, burst := float64(b.tokens.Limit()), b.tokens.Burst()
	if rate != 16*b.part || burst != int(16*b.part) {
		t.Errorf("rate %v and burst %d do not go with part %v", rate, burst, b.part)
	}
	return b.part
}

func TestRefusalsHalveTheRateAndQuietBringsItBack(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		refusals []time.Duration
		quiet    time.Duration
		want     float64
	}{
		"none":                               {nil, time.Hour, 1},
		"one":                                {[]time.Duration{0}, 0, 1. / 2},
		"several of one rush count once":     {[]time.Duration{0, s / 10, s / 2}, 0, 1. / 2},
		"another rush halves again":          {[]time.Duration{0, s, 2 * s}, 0, 1. / 8},
		"never below a sixteenth":            {[]time.Duration{0, s, 2 * s, 3 * s, 4 * s, 4*s + s/2, 6 * s}, 0, 1. / 16},
		"not yet quiet for long enough":      {[]time.Duration{0}, 5*s - 1, 1. / 2},
		"one step":                           {[]time.Duration{0}, 5 * s, 5. / 8},
		"two steps":                          {[]time.Duration{0}, 14 * s, 6. / 8},
		"whole again":                        {[]time.Duration{0}, 20 * s, 1},
		"never more than the whole":          {[]time.Duration{0}, time.Hour, 1},
		"a refusal amid the way back up":     {[]time.Duration{0, 10 * s}, 0, 3. / 8},
		"a refusal begins the quiet anew":    {[]time.Duration{0, 4 * s}, 4 * s, 1. / 4},
		"from the bottom it takes 40 s more": {[]time.Duration{0, s, 2 * s, 3 * s}, 40 * s, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := partAfter(t, c.quiet, c.refusals...); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("part %v, want %v", got, c.want)
			}
		})
	}
}

// What the bucket still held is gone with a refusal: the cloud's bucket is empty.
func TestARefusalEmptiesTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := starts(8, 1)
		if err := l.Wait(t.Context(), StartInstances); err != nil {
			t.Fatal(err)
		}
		l.Throttled(StartInstances)
		want := []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second}
		if diff := cmp.Diff(want, admitted(t, l, 3)); diff != "" {
			t.Errorf("calls at (-want +got):\n%s", diff)
		}
	})
}

// The first in the queue has its time already, and what it still owes then is paid at the new rate;
// those behind it go at half the rate.
func TestARefusalReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := starts(1, 1)
		if err := l.Wait(t.Context(), StartInstances); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { l.Throttled(StartInstances) })
		want := []time.Duration{time.Second, 3900 * time.Millisecond, 5900 * time.Millisecond}
		if diff := cmp.Diff(want, admitted(t, l, 3)); diff != "" {
			t.Errorf("calls at (-want +got):\n%s", diff)
		}
	})
}
