package suite

import (
	"slices"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/e2e/kind/lab"
)

// TestEightStartAtOnce: a burst for eight nodes starts them side by side. Shown by order: all are asked for before the first container has started, and
// half of them run before the first node is Ready. That all do is not asked: Docker takes a second for each on a machine that is busy.
func TestEightStartAtOnce(t *testing.T) {
	const nodes = 8
	l := lab.New(t)
	image := l.Push(t, "eight/web:1")
	standby := makePool(t, l, poolOf("eight", nodes, nodes, image))
	l.Namespace(t, "eight")
	events := l.WatchContainers(t)
	timeline := l.Record(t, "eight", "eight")
	w := lab.Workload{Name: "web", Namespace: "eight", Pool: "eight", Image: image, CPU: podCPU, Replicas: nodes}
	l.Create(t, w.Deployment())

	pods := l.AwaitReady(t, "eight", "web", nodes)
	l.AnswersHTTP(t, pods)
	if got := lab.Nodes(pods); !slices.Equal(got, standby) {
		t.Errorf("the pods run on %v, want one on each of %v", got, standby)
	}
	var requested, ready []time.Time
	for _, p := range pods {
		_, node := timeline.AwaitPod(t, p.UID)
		requested, ready = append(requested, node.StartRequested), append(ready, node.Ready)
	}
	starts := events.Of("start", "eight")
	if len(starts) != nodes {
		t.Fatalf("%d starts, want %d", len(starts), nodes)
	}
	slices.SortFunc(requested, time.Time.Compare)
	slices.SortFunc(ready, time.Time.Compare)
	first, last := starts[0].At, starts[nodes-1].At
	since := func(at time.Time) time.Duration { return at.Sub(requested[0]).Round(time.Millisecond) }
	t.Logf("since the first node was asked for: all asked %s, first container started %s, last %s, first node Ready %s, last %s",
		since(requested[nodes-1]), since(first), since(last), since(ready[0]), since(ready[nodes-1]))
	if requested[nodes-1].After(first) {
		t.Errorf("the last node was asked for %s after the first container had started: the burst was not asked for at once", requested[nodes-1].Sub(first))
	}
	if half := starts[nodes/2-1].At; half.After(ready[0]) {
		t.Errorf("container %d started %s after the first node was Ready: the starts waited for each other", nodes/2, half.Sub(ready[0]))
	}
}
