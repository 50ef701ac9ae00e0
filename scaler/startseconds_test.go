package scaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestAStartIsInTheStatusOfItsPool: from its intent until the node is opened.
func TestAStartIsInTheStatusOfItsPool(t *testing.T) {
	r := newRig(t, nodePool(5, 1), nodeIn(v1alpha1.StateStarting,
		markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-9*time.Second))))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcilePool()
	if got := r.pool().Status.StartSeconds; got != nil {
		t.Errorf("before any start has ended: %+v", *got)
	}
	r.reconcile()
	r.reconcilePool()
	want := &v1alpha1.StartSeconds{P50: 9, P95: 9, Count: 1}
	if diff := cmp.Diff(want, r.pool().Status.StartSeconds); diff != "" {
		t.Error(diff)
	}
}
