package suite

import (
	"slices"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestBurstStartsStoppedNodes: pods that fit nowhere start as many stopped nodes as they need, run
// there without a pull, and answer; without them the nodes stop again, and serve the next burst,
// five times, or three on a slow machine.
func TestBurstStartsStoppedNodes(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	image := l.Push(t, "burst/web:1")
	standby := makePool(t, l, poolOf("burst", 3, 3, image))
	pulled := l.Pulls(t, "burst/web:1")
	l.Namespace(t, "burst")
	events := l.WatchContainers(t)
	w := cluster.Workload{Name: "web", Namespace: "burst", Pool: "burst", Image: image, CPU: podCPU}
	l.Create(t, w.Deployment())

	for life := 1; life <= l.Lives; life++ {
		l.Scale(t, w, 3)
		pods := l.AwaitReady(t, "burst", "web", 3)
		l.AnswersHTTP(t, pods)
		if got := cluster.Nodes(pods); !slices.Equal(got, standby) {
			t.Errorf("life %d: the pods run on %v, want one on each of %v", life, got, standby)
		}
		if got := len(events.Of("start", "burst")); got != 3*life {
			t.Errorf("life %d: %d starts so far, want %d", life, got, 3*life)
		}
		l.Scale(t, w, 0)
		if got := l.AwaitStandby(t, "burst", 3); !slices.Equal(got, standby) {
			t.Errorf("life %d: the nodes are %v, want the same %v", life, got, standby)
		}
	}
	if got := len(events.Of("start", "burst")); got != 3*l.Lives {
		t.Errorf("%d starts, want %d", got, 3*l.Lives)
	}
	if created := events.Of("create", "burst"); len(created) > 0 {
		t.Errorf("nodes were made although stopped ones sufficed: %v", created)
	}
	if got := l.Pulls(t, "burst/web:1"); got != pulled {
		t.Errorf("the image was pulled after the warm-up: %d pulls, %d before", got, pulled)
	}
}
