package exact

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// mixed is a burst for which no closed form says how many nodes it takes. The stock scheduler says it: see stockNeedsLess.
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

// mixture makes the same pods each time: five sizes of cpu, five of memory, and a few pods with wishes of their own.
func mixture(n int, seed uint64) []*corev1.Pod {
	dice := rand.New(rand.NewPCG(seed, 0))
	cpu := []string{"100m", "250m", "500m", "1", "1900m"}
	memory := []string{"128Mi", "512Mi", "1Gi", "3Gi", "7Gi"}
	wish := []func(*corev1.Pod){
		hostPort, apart(corev1.LabelHostname), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyIgnore),
		spread(corev1.LabelTopologyZone, corev1.NodeInclusionPolicyIgnore), softSpread, initContainer("2", false), initContainer("250m", true),
	}
	out := make([]*corev1.Pod, n)
	for i := range out {
		p := rig.Pod(fmt.Sprintf("pod-%04d", i), "cpu", cpu[dice.IntN(len(cpu))], "memory", memory[dice.IntN(len(memory))])
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

// TestMixedBurstsStartNoMoreThanStockNeeds holds bursts without a closed form against the smallest number of empty running nodes on
// which the stock profile places them.
func TestMixedBurstsStartNoMoreThanStockNeeds(t *testing.T) {
	// The stock scheduler's pods are no business of Stratos here, so its profile counts among those with the extender.
	r := newRig(t, rig.Options{Stratos: []string{"--extender-scheduler-names=stratos-scheduler," + corev1.DefaultSchedulerName}}, corev1.PreemptLowerPriority)
	startStock(t, r)
	for _, name := range slices.Sorted(maps.Keys(mixedRows())) {
		t.Run(name, func(t *testing.T) {
			m := mixedRows()[name]
			row := row{pools: []pool{{m.kind, int32(atLeast(m)) + slack, 10}}, pods: m.pods}
			warm(t, r, row.pools)
			started := len(burst(t, r, row.pods))
			promisedOnce(t, r, row.pods)
			tidy(t, r, row) // the stock profile is tried without a pool, so that nothing of Stratos can take part
			t.Logf("%d nodes were started; no %d could hold the pods", started, atLeast(m)-1)
			if n, less := stockNeedsLess(t, r, mixedRows()[name], started); less {
				t.Errorf("%d nodes were started, and the stock profile places these pods on %d", started, n)
			}
		})
	}
}
