package exactstarts

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// quiet is how long nothing may be started after a burst: longer than a claim waits for its pod.
const quiet = 2 * time.Minute

// besideEachOther are bursts whose claims were once wrong, each in a pool of its own, with an agent
// on each node.
func besideEachOther() []row {
	in := func(p pool, why string, need int, pods []*corev1.Pod) row {
		return row{[]pool{p}, each(named(p.kind, pods), only(p.kind)), need, why}
	}
	return []row{
		in(pool{four, 6, 10}, "beside the agent's 100m there is room for one pod of 2 cpu", 4,
			pods(4, "cpu", "2")),
		in(pool{eight, 5, 10}, "one pod to a node, as long as the full one, a domain too, has none", 3,
			each(pods(3, "cpu", "100m"), labelled("spread"), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyHonor))),
		in(pool{few, 15, 10}, "one pod to a node, and three nodes in the zone of the first", 3,
			each(pods(3, "cpu", "2500m"), labelled("near"), near(corev1.LabelTopologyZone))),
	}
}

// playBesideEachOther plays those bursts at once. A running node is full, and one pod has room
// nowhere. The test that it returns is for later: nothing more was started since.
func playBesideEachOther(t *testing.T) (nothingAfterwards func(*testing.T)) {
	t.Helper()
	r := newRig(t, framework.Options{}, corev1.PreemptLowerPriority)
	create(t, r, agent(offStandby)) // first, so that its image is part of the warm-up
	rows := besideEachOther()
	var pools []pool
	var all []*corev1.Pod
	need := 0
	for _, row := range rows {
		pools, all, need = append(pools, row.pools...), append(all, row.pods...), need+row.need
	}
	warm(t, r, pools)
	if started := burst(t, r, of("full", eight, "7900m")); len(started) != 1 {
		t.Fatalf("set-up: %d nodes were started for one pod", len(started))
	}
	create(t, r, assert.Objects(of("never", four, "3950m"))...)
	if started := burst(t, r, all); len(started) != need {
		t.Errorf("%d nodes were started, want %d", len(started), need)
	}
	promisedOnce(t, r, all)
	began, before := time.Now(), starts(t, r)
	return func(t *testing.T) {
		select {
		case <-time.After(time.Until(began.Add(quiet))):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		if more := starts(t, r)[len(before):]; len(more) > 0 {
			t.Errorf("%d nodes were started afterwards: %v", len(more), more)
		}
		events := &corev1.EventList{}
		if err := r.Client.List(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if v1alpha1.Reason(e.Reason) == v1alpha1.ReasonFutileStart {
				t.Errorf("%s: %s", e.InvolvedObject.Name, e.Message)
			}
		}
	}
}

// of is one pod of the pool's, of no group.
func of(name, pool, cpu string) []*corev1.Pod {
	return each(named(name, pods(1, "cpu", cpu)), labelled(name), only(pool))
}

func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func only(pool string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { framework.OnPool(p, pool) }
}
