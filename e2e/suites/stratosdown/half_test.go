package stratosdown

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// failing are the pods over which their scheduler fails, as the remaining Stratos counts them, and
// failingOurs those of the scheduler in its pod.
const (
	failing     = "stratos_scheduler_error_pods"
	failingOurs = `scheduler="` + v1alpha1.SchedulerName + `"`
)

// TestStratosGoneBesideItsScheduler kills the Stratos container of the pod whose scheduler is
// active. That scheduler can decide nothing any more: the pods it fails over are counted and told,
// its liveness probe makes it give up its lease, and the other pod's scheduler does the work.
func TestStratosGoneBesideItsScheduler(t *testing.T) {
	t.Parallel()
	s := newSite(t, "default")
	schedules := assert.WatchLease(t, s.Rig, assert.ReleaseNamespace, "stratos-scheduler")
	s.first.Start(t, s.Rig, s.identity)
	active := schedules.AwaitHolder(t)
	s.second.Start(t, s.Rig, s.identity)
	s.warm(t, 4)
	before := poolPod("before", v1alpha1.SchedulerName)
	assert.Serve(t, s.Rig, before)
	if holder := schedules.AwaitHolder(t); holder != active {
		t.Fatalf("the first pod's scheduler lost its lease from the start: %q", schedules.Holders())
	}
	ofFirst, ofSecond := newKubelet(t, s.chart, s.first), newKubelet(t, s.chart, s.second)
	ofSecond.watch(t)

	s.first.Process.Kill()
	failed := poolPod("failed", v1alpha1.SchedulerName)
	assert.Create(t, s.Rig, failed)
	assert.AwaitPending(t, s.Rig, failed, corev1.PodReasonSchedulerError)
	t.Run("the pods it fails over are counted and told", func(t *testing.T) {
		assert.AwaitEvent(t, s.Rig, failed, v1alpha1.ReasonStandbyUnavailable, "the scheduler fails: ")
		assert.AwaitMetric(t, s.second.Metrics, failing, failingOurs, func(n float64) bool { return n == 1 })
	})
	// A kubelet may be as late as it likes. This one waits until the failure has been seen.
	ofFirst.watch(t)
	t.Run("its lease goes to the other pod's scheduler", func(t *testing.T) {
		schedules.AwaitHolder(t, active)
		// Only the one that holds the lease asks.
		assert.AwaitMetric(t, s.second.Metrics, "stratos_extender_requests_total", `verb="filter"`,
			func(n float64) bool { return n > 0 })
	})
	t.Run("which serves", func(t *testing.T) {
		burst := []*corev1.Pod{poolPod("burst-1", v1alpha1.SchedulerName), poolPod("burst-2", v1alpha1.SchedulerName)}
		assert.Create(t, s.Rig, assert.Objects(burst)...)
		assert.AwaitRunning(t, s.Rig, append(burst, failed)...)
		if n := len(assert.Starts(t, s.Rig)); n != 4 {
			t.Errorf("%d starts for four pods of a node's size", n)
		}
		assert.AwaitMetric(t, s.second.Metrics, failing, failingOurs, func(n float64) bool { return n == 0 })
	})
	if n := ofFirst.restarts.Load(); n == 0 {
		t.Error("the scheduler without its extender was never restarted")
	}
	if n := ofSecond.restarts.Load(); n != 0 {
		t.Errorf("the scheduler with its extender was restarted %d times", n)
	}
	t.Logf("holders of the schedulers' lease %q, restarts %d", schedules.Holders(), ofFirst.restarts.Load())
}
