package exact

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// watchRows are the rows for the pending-pod watch: the same, with 400 pods where the extender's
// has a thousand.
func watchRows() map[string]row {
	out := rows()
	delete(out, "a thousand pods")
	out["four hundred pods"] = row{[]pool{{four, 102, 10}}, pods(400, "cpu", "1"), 100, "four pods to a node"}
	for _, r := range out {
		each(r.pods, func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName })
	}
	return out
}

// TestWatchStartsExactly has no extender anywhere: a stock scheduler calls the pods unschedulable,
// and the watch starts nodes for them.
func TestWatchStartsExactly(t *testing.T) {
	t.Parallel()
	// No preemption: the stock scheduler asks no extender before it evicts, see docs/scheduler.md.
	r := newRig(t, rig.Options{NoScheduler: true}, corev1.PreemptNever)
	startStock(t, r)
	for _, name := range slices.Sorted(maps.Keys(watchRows())) {
		t.Run(name, func(t *testing.T) {
			row := watchRows()[name]
			warm(t, r, row.pools)
			defer tidy(t, r, row)
			if started := burst(t, r, row.pods); len(started) != row.need {
				t.Errorf("%d nodes were started, want %d: %s", len(started), row.need, row.why)
			}
		})
	}
	if asked := r.Recorder.Asked(rig.Filter); len(asked) > 0 {
		t.Errorf("some scheduler asked the extender: %+v", asked[0])
	}
}
