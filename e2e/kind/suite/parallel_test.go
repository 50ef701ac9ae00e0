package suite

import (
	"slices"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// eight is the size of the pool of TestEightNodes.
const eight = 8

// TestEightNodes makes a pool of eight and uses it twice, because to warm it takes longest.
func TestEightNodes(t *testing.T) {
	end := undisturbed(t)
	l := cluster.New(t)
	image := l.Push(t, "eight/web:1")
	standby := makePool(t, l, poolOf("eight", eight, eight, image))
	l.Namespace(t, "eight")
	t.Run("StartAtOnce", func(t *testing.T) { startAtOnce(t, l, image, standby) })
	l.AwaitStandby(t, "eight", eight)
	t.Run("Latencies", func(t *testing.T) { startLatencies(t, l, image, end) })
}

// startAtOnce: a burst for eight nodes starts them side by side. Shown by order, all are asked for
// before the first container has started; and by a ratio, their boots overlap: on average at least
// two are under way. How many is for Docker, which starts one container after the other, and for
// the machine.
func startAtOnce(t *testing.T, l *cluster.Cluster, image string, standby []string) {
	const nodes = eight
	events := l.WatchContainers(t)
	timeline := l.Record(t, "eight", "eight")
	w := cluster.Workload{Name: "web", Namespace: "eight", Pool: "eight", Image: image, CPU: podCPU, Replicas: nodes}
	l.Create(t, w.Deployment())

	pods := l.AwaitReady(t, "eight", "web", nodes)
	l.AnswersHTTP(t, pods)
	if got := cluster.Nodes(pods); !slices.Equal(got, standby) {
		t.Errorf("the pods run on %v, want one on each of %v", got, standby)
	}
	var requested []time.Time
	ready := map[string]time.Time{}
	for _, p := range pods {
		_, node := timeline.AwaitPod(t, p.UID)
		requested, ready[p.Spec.NodeName] = append(requested, node.StartRequested), node.Ready
	}
	starts := events.Of("start", "eight")
	if len(starts) != nodes {
		t.Fatalf("%d starts, want %d", len(starts), nodes)
	}
	slices.SortFunc(requested, time.Time.Compare)
	first, lastReady, boots := starts[0].At, time.Time{}, time.Duration(0)
	for _, start := range starts {
		boots += ready[start.Node].Sub(start.At)
		if ready[start.Node].After(lastReady) {
			lastReady = ready[start.Node]
		}
	}
	span := lastReady.Sub(first)
	since := func(at time.Time) time.Duration { return at.Sub(requested[0]).Round(time.Millisecond) }
	t.Logf(
		"since the first node was asked for: all asked %s, first container started %s, last %s, last node Ready %s; boots of %s in %s",
		since(requested[nodes-1]),
		since(first),
		since(starts[nodes-1].At),
		since(lastReady),
		boots.Round(time.Millisecond),
		span.Round(time.Millisecond),
	)
	if requested[nodes-1].After(first) {
		t.Errorf("the last node was asked for %s after the first container had started: the burst was not asked for at once",
			requested[nodes-1].Sub(first))
	}
	if boots < 2*span {
		t.Errorf("the nodes took %s to boot, all together, within %s: they waited for each other", boots, span)
	}
}
