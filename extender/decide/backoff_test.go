package decide

import (
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	for name, c := range map[string]struct {
		bounds   Backoff
		failures int
		want     time.Duration
	}{
		"no failure":                {Backoff{time.Minute, time.Hour}, 0, time.Minute},
		"the first":                 {Backoff{time.Minute, time.Hour}, 1, time.Minute},
		"the third":                 {Backoff{time.Minute, time.Hour}, 3, 4 * time.Minute},
		"the last below the bound":  {Backoff{time.Minute, time.Hour}, 6, 32 * time.Minute},
		"the bound":                 {Backoff{time.Minute, time.Hour}, 7, time.Hour},
		"more than fit an int64":    {Backoff{time.Second, 24 * time.Hour}, 1 << 30, 24 * time.Hour},
		"the first above the bound": {Backoff{2 * time.Hour, time.Hour}, 1, time.Hour},
	} {
		if got := c.bounds.After(c.failures); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAFinishedBackoffIsToldOnceAndForgotten(t *testing.T) {
	b := newBackoffs[string](time.Minute, time.Hour)
	b.fail("a", epoch())
	b.fail("a", epoch().Add(time.Second)) // under way together: one failure
	if until := b.until("a", epoch()); until != epoch().Add(time.Minute) {
		t.Errorf("until %s", until)
	}
	b.finish("a")
	if until := b.until("a", epoch()); !until.IsZero() {
		t.Errorf("finished, and yet until %s", until)
	}
	if !b.ended(epoch()) || b.ended(epoch()) || len(b.byKey) > 0 {
		t.Errorf("not told once: %v", b.byKey)
	}
}
