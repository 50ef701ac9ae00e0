package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestPodsHaveTheirGraceWhateverTheClocksSay: the API server's clock is an hour behind ours, or
// ahead of it. A pod that is being deleted is overdue after its grace and podOverdue, counted from
// when this process first saw it so.
func TestPodsHaveTheirGraceWhateverTheClocksSay(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		passed := time.Duration(0)
		w := NewStepClock(func() time.Duration { return passed })
		now := func() time.Time { return scalertest.Epoch().Add(passed) }
		p := podOn("c", "a")
		p.UID, p.DeletionTimestamp = "a", &metav1.Time{Time: scalertest.Epoch().Add(off)}
		p.DeletionGracePeriodSeconds = new(int64(30))
		overdue := func() int {
			return overdueOf([]*corev1.Pod{p}, w.deletedSince("i", []corev1.Pod{*p}, now()), now())
		}
		if overdue() != 0 {
			t.Errorf("off by %s: overdue at once", off)
		}
		passed += 30*time.Second + podOverdue
		if overdue() != 0 {
			t.Errorf("off by %s: overdue after %s", off, passed)
		}
		if passed++; overdue() != 1 {
			t.Errorf("off by %s: not overdue after %s", off, passed)
		}
		if w.deletedSince("i", nil, now()); len(w.deleted) != 0 {
			t.Error("a pod is remembered that is gone")
		}
	}
}
