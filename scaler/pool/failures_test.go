package pool

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// TestWarmupFailuresAreForgotten: by a complete warm-up, and by a change of class or template.
func TestWarmupFailuresAreForgotten(t *testing.T) {
	failed := v1alpha1.WarmupFailure{Time: metav1.NewTime(scalertest.Epoch()), InstanceID: "i-x", Reason: "never_ready",
		Message: "never Ready"}
	pool := scalertest.NodePool(5, 1)
	at := func(hash string) v1alpha1.WarmupFailure {
		f := failed
		f.Hash = hash
		return f
	}
	w := &WarmupFailures{}
	w.Failed(pool, at("a"), scalertest.Epoch().Add(-time.Minute))
	w.Failed(pool, at("a"), scalertest.Epoch().Add(-time.Minute))
	if _, f := w.last(pool, "a"); f == nil || f.Count != 1 {
		t.Fatalf("%+v, want one failure of two instances that were launched together", f)
	}
	w.Failed(pool, at("a"), scalertest.Epoch().Add(time.Minute))
	if _, f := w.last(pool, "a"); f.Count != 2 {
		t.Errorf("%+v, want the second failure counted", f)
	}
	if last, f := w.last(pool, "b"); f != nil || last == nil {
		t.Errorf("another class: failing %+v, last %+v; want the last one alone", f, last)
	}
	w.Completed(pool, "b")
	if _, f := w.last(pool, "a"); f == nil {
		t.Error("a warm-up from another class ended the back-off")
	}
	w.Completed(pool, "a")
	if last, _ := w.last(pool, "a"); last != nil {
		t.Errorf("%+v after a complete warm-up", last)
	}
	w.Failed(pool, at("a"), scalertest.Epoch())
	w.Failed(pool, at("b"), scalertest.Epoch())
	if _, f := w.last(pool, "b"); f == nil || f.Count != 1 {
		t.Errorf("%+v, want the count to begin anew with another class", f)
	}
}
