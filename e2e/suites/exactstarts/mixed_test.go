package exactstarts

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// mixed is a burst for which no closed form says how many nodes it takes. The stock scheduler says
// it: see stockNeedsLess.
type mixed struct {
	kind string
	pods []*corev1.Pod
}

func mixedRows() map[string]mixed {
	return map[string]mixed{
		"200 mixed pods": {four, mixture(200, 1)},
		"60 mixed pods of two priorities, 5 pods to a node": {few, everyThird(mixture(60, 2), priority)},
	}
}

// mixture makes the same pods each time: five sizes of cpu, five of memory, and a few pods with
// wishes of their own.
func mixture(n int, seed uint64) []*corev1.Pod {
	dice := rand.New(rand.NewPCG(seed, 0))
	cpu := []string{"100m", "250m", "500m", "1", "1900m"}
	memory := []string{"128Mi", "512Mi", "1Gi", "3Gi", "7Gi"}
	wish := []func(*corev1.Pod){
		hostPort, apart(corev1.LabelHostname), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyIgnore),
		spread(corev1.LabelTopologyZone, corev1.NodeInclusionPolicyIgnore), softSpread, initContainer("2", false),
		initContainer("250m", true),
	}
	out := make([]*corev1.Pod, n)
	for i := range out {
		p := framework.Pod(fmt.Sprintf("pod-%04d", i), "cpu", cpu[dice.IntN(len(cpu))], "memory",
			memory[dice.IntN(len(memory))])
		p.Labels = map[string]string{"app": "plain"}
		if i%4 == 3 {
			w := dice.IntN(len(wish))
			p.Labels["app"] = fmt.Sprintf("wish-%d", w)
			wish[w](p)
		}
		out[i] = p
	}
	return out
}

func softSpread(p *corev1.Pod) {
	spread(corev1.LabelHostname, corev1.NodeInclusionPolicyIgnore)(p)
	p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
}

func everyThird(in []*corev1.Pod, change func(*corev1.Pod)) []*corev1.Pod {
	for i := 2; i < len(in); i += 3 {
		change(in[i])
	}
	return in
}

// TestMixedBurstsStartNoMoreThanStockNeeds holds bursts without a closed form against the smallest
// number of empty running nodes on which the stock profile places them: through the extender no
// more than those, through the watch at most one more.
func TestMixedBurstsStartNoMoreThanStockNeeds(t *testing.T) {
	t.Parallel()
	// The pods of the search are no business of Stratos, so their scheduler counts among those with
	// the extender.
	r := newRig(t, framework.Options{Stratos: []string{"--extender-scheduler-names=stratos-scheduler," +
		corev1.DefaultSchedulerName}}, corev1.PreemptNever)
	startStock(t, r)
	for _, name := range slices.Sorted(maps.Keys(mixedRows())) {
		t.Run(name, func(t *testing.T) {
			pools := newKeptPools(r)
			asked := mixedRows()[name].starts(t, pools, func(*corev1.Pod) {}, promisedOnce)
			seen := mixedRows()[name].starts(t, pools, func(p *corev1.Pod) { p.Spec.SchedulerName = watched }, nil)
			pools.provide(t, nil) // the stock profile is tried without a pool, so that nothing of Stratos takes part
			m := mixedRows()[name]
			t.Logf("%d nodes were started by the extender, %d by the watch; fewer than %d cannot hold the pods", asked, seen,
				atLeast(m))
			if n, less := stockNeedsLess(t, r, m, max(asked, seen-1)); less {
				t.Errorf("the stock profile places these pods on %d nodes", n)
			}
		})
	}
}

// starts is how many nodes the burst starts in its pool. check, if set, looks at what the scheduler
// was told.
func (m mixed) starts(t *testing.T, pools *keptPools, change func(*corev1.Pod),
	check func(*testing.T, *framework.Rig, []*corev1.Pod)) int {
	t.Helper()
	pools.provide(t, []pool{{m.kind, int32(atLeast(m)) + slack, 10}})
	started := burst(t, pools.rig, each(m.pods, change))
	if check != nil {
		check(t, pools.rig, m.pods)
	}
	return len(started)
}
