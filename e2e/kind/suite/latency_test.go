package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// startLatencies prints how long each step takes for one pod, of a stopped node and of a new one,
// and stores it beside the logs. It checks order, not speed. The nodes are those of pool eight, all
// standby. It takes longest, and calls endUndisturbed when only pods are left, which stand what
// TestBurstSurvives does.
func startLatencies(t *testing.T, l *cluster.Cluster, image string, endUndisturbed func()) {
	const (
		joins = 2
		// batch is how many rounds follow each other before all nodes stop again: fewer take longer, more
		// crowd the machine.
		batch = eight
	)
	// No standby node is kept, so each pod waits for a node to be made.
	cold := poolOf("cold", joins, 0)
	cold.Spec.ScaleDown.StandbySurplusTTL = duration(time.Second)
	l.Create(t, l.Class("cold", reserve(t, l)), cold)
	endUndisturbed()

	settle := func() { l.AwaitStandby(t, "eight", eight) }
	stopped := measure(t, l, cluster.Workload{Name: "stopped", Namespace: "eight", Pool: "eight", Image: image,
		CPU: podCPU},
		l.Rounds, batch, settle)
	joined := measure(t, l, cluster.Workload{Name: "joined", Namespace: "eight", Pool: "cold", Image: image, CPU: podCPU},
		joins, joins, func() { l.AwaitStandby(t, "cold", 0) })

	report := fmt.Sprintf(
		"| pod created until | stopped node, %d rounds: p50 | p99 | new node, %d rounds: p50 | p99 |\n|---|---|---|---|---|\n",
		l.Rounds,
		joins,
	)
	for _, step := range []struct {
		name string
		of   func(steps) time.Duration
	}{
		{"start requested", func(s steps) time.Duration { return s.requested }},
		{"node Ready", func(s steps) time.Duration { return s.ready }},
		{"pod bound", func(s steps) time.Duration { return s.bound }},
		{"pod Running", func(s steps) time.Duration { return s.running }},
	} {
		report += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", step.name, quantile(stopped, 50, step.of),
			quantile(stopped, 99, step.of), quantile(joined, 50, step.of), quantile(joined, 99, step.of))
	}
	t.Log("\n" + report)
	if err := os.WriteFile(filepath.Join(l.Logs, "latencies.md"), []byte(report), 0o600); err != nil {
		t.Error(err)
	}
}

// steps are times since the pod was created; requested is 0 where the node was made for the pod.
type steps struct{ requested, ready, bound, running time.Duration }

// measure adds one pod at a time, each of which waits for a node of its own; after as many pods as
// there are nodes all of them go.
func measure(t *testing.T, l *cluster.Cluster, w cluster.Workload, rounds, nodes int, settle func()) []steps {
	t.Helper()
	timeline := l.Record(t, w.Namespace, w.Pool)
	l.Create(t, w.Deployment())
	var all []steps
	seen := map[types.UID]bool{}
	for len(all) < rounds {
		for n := 1; n <= nodes && len(all) < rounds; n++ {
			l.Scale(t, w, int32(n)) //nolint:gosec // a few nodes
			for _, pod := range l.AwaitReady(t, w.Namespace, w.Name, n) {
				if !seen[pod.UID] {
					seen[pod.UID] = true
					all = append(all, stepsOf(t, timeline, pod.UID))
				}
			}
		}
		l.Scale(t, w, 0)
		settle()
	}
	if len(all) != rounds {
		t.Errorf("%d pods were measured in %d rounds", len(all), rounds)
	}
	return all
}

func stepsOf(t *testing.T, timeline *cluster.Timeline, pod types.UID) steps {
	t.Helper()
	seen, node := timeline.AwaitPod(t, pod)
	s := steps{ready: node.Ready.Sub(seen.Created), bound: seen.Bound.Sub(seen.Created),
		running: seen.Running.Sub(seen.Created)}
	if !node.StartRequested.IsZero() {
		s.requested = node.StartRequested.Sub(seen.Created)
	}
	// Two watches may show the same instant in either order.
	if s.ready > s.bound+time.Second || s.bound > s.running {
		t.Errorf("the pod was bound before its node was Ready, or ran before it was bound: %+v", s)
	}
	return s
}

func quantile(all []steps, percent int, of func(steps) time.Duration) string {
	values := make([]time.Duration, 0, len(all))
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	value := values[min(len(values)-1, len(values)*percent/100)]
	if value == 0 {
		return "-"
	}
	return value.Round(time.Millisecond).String()
}
