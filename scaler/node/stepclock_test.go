package node

import (
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// TestAStepClockCountsEachStepAnew: each step has the whole of its time, the same step of a later
// life too, and what is gone is forgotten.
func TestAStepClockCountsEachStepAnew(t *testing.T) {
	passed := time.Duration(0)
	w := NewStepClock(func() time.Duration { return passed })
	now := scalertest.Epoch()
	start := func(at time.Time) string {
		return stepOf(scalertest.NodeIn(v1alpha1.StateStarting, scalertest.MarkedAt(v1alpha1.AnnotationScaleUpStarted, at)))
	}
	if got := w.since("i", start(now), now); !got.Equal(now) {
		t.Errorf("first seen at %s, want now", got)
	}
	passed += time.Minute
	if got := w.since("i", start(now), now); !got.Equal(now.Add(-time.Minute)) {
		t.Errorf("seen for %s, want a minute", now.Sub(got))
	}
	if got := w.since("i", start(now.Add(time.Second)), now); !got.Equal(now) {
		t.Errorf("the next start was seen for %s, want not at all", now.Sub(got))
	}
	if got := w.since("i", firstWarmup, now); !got.Equal(now.Add(-time.Minute)) {
		t.Errorf("without its Node it was seen for %s, want all the time", now.Sub(got))
	}
	w.forget("i")
	if len(w.seen) != 0 {
		t.Errorf("%d instances are remembered that are gone", len(w.seen))
	}
	if a, b := stepOf(nil), stepOf(scalertest.NodeIn(v1alpha1.StateWarmup)); a != b {
		t.Errorf("a first warm-up is two steps, %q and %q", a, b)
	}
}
