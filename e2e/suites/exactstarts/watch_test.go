package exactstarts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// devicesBeside is the row in which not all nodes suit all pods.
const devicesBeside = "devices beside a pool without"

// furtherStarts is how many more nodes a row may need because the stock scheduler does not see the
// claims: where a pod without devices takes the room of pods that want them, these need another
// node with devices.
func furtherStarts(name string) int {
	if name == devicesBeside {
		return 4
	}
	return 0
}

// watchRows are the rows for the pending-pod watch: the same, with 400 pods where the extender's
// has a thousand.
func watchRows() map[string]row {
	out := rows()
	delete(out, "a thousand pods")
	out["four hundred pods"] = row{[]pool{{four, 102, 10}}, pods(400, "cpu", "1"), 100, "four pods to a node"}
	// Four pods without devices may each take the room of two that want one.
	devices := out[devicesBeside]
	devices.pools = []pool{{gpus, 6, 10}, {four, 7, 10}}
	out[devicesBeside] = devices
	for _, r := range out {
		each(r.pods, func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName })
	}
	return out
}

// TestWatch has no extender anywhere: a stock scheduler calls the pods unschedulable, and the watch
// starts nodes for them.
func TestWatch(t *testing.T) {
	t.Parallel()
	// No preemption: the stock scheduler asks no extender before it evicts, see docs/scheduler.md.
	r := newRig(t, framework.Options{NoScheduler: true}, corev1.PreemptNever)
	startStock(t, r)
	t.Run("HonoursVolumes", func(t *testing.T) { watchHonoursVolumes(t, r) })
	t.Run("StartsExactly", func(t *testing.T) { watchStartsExactly(t, r) })
}

func watchStartsExactly(t *testing.T, r *framework.Rig) {
	pools := newKeptPools(r)
	for _, name := range inOrder(watchRows()) {
		passed := t.Run(name, func(t *testing.T) {
			row := watchRows()[name]
			pools.provide(t, row.pools)
			started, more := len(burst(t, r, row.pods)), furtherStarts(name)
			if started < row.need || started > row.need+more {
				t.Errorf("%d nodes were started, want %d and at most %d more: %s", started, row.need, more, row.why)
			}
			if asked := r.Recorder.Asked(framework.Filter); len(asked) > 0 {
				t.Errorf("some scheduler asked the extender: %+v", asked[0])
			}
		})
		if !passed {
			pools.provide(t, nil) // so that the rows that follow begin with other nodes
		}
	}
}
