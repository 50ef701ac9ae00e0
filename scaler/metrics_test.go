package scaler

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/start"
)

// TestLaunchesForWaitingPodsAreColdStarts: launches that only fill the pool up to minStandby are no
// starts for pods.
func TestLaunchesForWaitingPodsAreColdStarts(t *testing.T) {
	for name, c := range map[string]struct {
		least    int32
		pods     []*corev1.Pod
		refused  int
		launched int
		want     float64
	}{
		"nobody waits":                       {least: 2, launched: 2},
		"a pod waits, and no node stands by": {pods: []*corev1.Pod{waits("a", "1")}, launched: 1, want: 1},
		"a pod waits while the pool refills": {least: 2, pods: []*corev1.Pod{waits("a", "1")}, launched: 3, want: 1},
		"pods that need a node each": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")}, launched: 2,
			want: 2},
		"the cloud refuses the launch at first": {pods: []*corev1.Pod{waits("a", "1")}, refused: 1, launched: 2, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, c.least), nodeIn("running"))
			r.sweep(instance(provider.InstanceRunning))
			for _, p := range c.pods {
				r.demand.Add(p, "p")
			}
			r.launching = func(n int) error {
				if n <= c.refused {
					return &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a"}
				}
				return nil
			}
			for range c.refused + 2 { // once more than needed: a launch is counted once
				r.reconcilePool()
				r.now = r.now.Add(launchRetry)
			}
			if len(r.launches) != c.launched {
				t.Fatalf("%d launches, want %d", len(r.launches), c.launched)
			}
			if got := testutil.ToFloat64(r.pools.Metrics.Scaleup.WithLabelValues("p",
				string(start.TriggerCold))); got != c.want {
				t.Errorf("%v cold starts of %d launches, want %v", got, c.launched, c.want)
			}
		})
	}
}

// TestAPoolWithoutStartsHasItsHistogram: a series that begins at its first start has no increase,
// so that an alert on slow starts would miss it.
func TestAPoolWithoutStartsHasItsHistogram(t *testing.T) {
	r := newRig(t, nodePool(5, 0))
	r.sweep()
	r.reconcilePool()
	if n := testutil.CollectAndCount(r.pools.Metrics.ScaleupDuration,
		"stratos_nodepool_scaleup_duration_seconds"); n != 1 {
		t.Errorf("%d series of the pool, want 1", n)
	}
}

// TestAPoolWithoutFailedStartsHasTheirSeries: all that a start can fail for is 0 before the first
// failure.
func TestAPoolWithoutFailedStartsHasTheirSeries(t *testing.T) {
	r := newRig(t, nodePool(5, 0))
	r.sweep()
	r.reconcilePool()
	failures := r.pools.Metrics.StartFailures
	had := testutil.CollectAndCount(failures)
	for _, reason := range []string{string(start.RefusedCapacity), string(start.RefusedStopping),
		string(start.RefusedOther), metrics.StartTimeout, metrics.StartReplaced} {
		failures.WithLabelValues("p", reason).Inc()
	}
	if has := testutil.CollectAndCount(failures); had != has || had != 5 {
		t.Errorf("%d series before the first failures, %d after", had, has)
	}
}

// TestAReplicaThatDoesNotLeadHasTheSeriesOfFailedStarts: it starts nodes and never looks at a pool.
func TestAReplicaThatDoesNotLeadHasTheSeriesOfFailedStarts(t *testing.T) {
	r := newRig(t, unschedulable(needing("1")), nodePool(2, 0), nodeIn(v1alpha1.StateStandby))
	registry := prometheus.NewRegistry()
	l := r.loopsWith(registry)
	l.Placer.Place(unschedulable(needing("1")))
	l.Starter.Step(t.Context())
	l.Starter.StepCall(t.Context())
	r.want("patch c starting", "start i-c")
	if n, err := testutil.GatherAndCount(registry, "stratos_nodepool_start_failures_total"); n != 5 || err != nil {
		t.Errorf("%d series of the pool, want 5 (error %v)", n, err)
	}
}

// TestALaunchWhoseAnswerIsLostIsACountedStart: the next sweep shows its instance.
func TestALaunchWhoseAnswerIsLostIsACountedStart(t *testing.T) {
	r := newRig(t, nodePool(5, 0))
	r.sweep()
	r.demand.Add(waits("a", "1"), "p")
	r.launching = func(int) error { return context.DeadlineExceeded }
	r.reconcilePool()
	r.sweep(instance(provider.InstancePending, withTag(inventory.TagLaunch, "0.uid-p")))
	r.reconcilePool()
	r.reconcilePool()
	if got := testutil.ToFloat64(r.pools.Metrics.Scaleup.WithLabelValues("p", string(start.TriggerCold))); got != 1 ||
		len(r.launches) != 1 {
		t.Errorf("%v cold starts of %d launches, want 1 of 1", got, len(r.launches))
	}
}
