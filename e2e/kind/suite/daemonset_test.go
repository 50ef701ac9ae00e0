package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestDaemonSetRollsOutBesideStandby: a DaemonSet that tolerates everything, with the documented
// affinity and its default of one unavailable pod, rolls out on the node that runs while others of
// its pool are standby; afterwards the standby nodes get the new image, one after the other.
func TestDaemonSetRollsOutBesideStandby(t *testing.T) {
	const nodes = 3
	undisturbed(t)
	l := cluster.New(t)
	web := l.Push(t, "roll/web:1")
	before, after := l.Push(t, "roll/everywhere:1"), l.Push(t, "roll/everywhere:2")
	l.Namespace(t, "roll")
	daemons := cluster.Everywhere("everywhere", "roll", "roll", before)
	l.Create(t, daemons)
	containers := makePool(t, l, poolOf("roll", nodes, nodes, web))
	w := cluster.Workload{Name: "web", Namespace: "roll", Pool: "roll", Image: web, CPU: podCPU}
	l.Create(t, w.Deployment())
	l.Scale(t, w, 1)
	running := cluster.Nodes(l.AwaitReady(t, "roll", "web", 1))
	l.AwaitRolledOut(t, daemons, 1)

	l.Roll(t, daemons, after)
	cluster.Await(t, "the new pod on the running node", func(ctx context.Context) (bool, error) {
		pods, err := l.Pods(ctx, "roll", "everywhere")
		for _, p := range pods {
			if p.Spec.NodeName == running[0] && p.Spec.Containers[0].Image == after && cluster.Ready(&p) {
				return true, err
			}
		}
		return false, err
	})
	if now := cluster.Nodes(l.AwaitReady(t, "roll", "web", 1)); !slices.Equal(now, running) {
		t.Errorf("the workload's pod is on %v, want it left on %v", now, running)
	}
	l.Scale(t, w, 0)
	cluster.Await(t, "the new image on each stopped node", func(ctx context.Context) (bool, error) {
		stopped, err := l.Stopped(ctx, "roll")
		if err != nil || len(stopped) != nodes {
			return false, errors.Join(err, fmt.Errorf("stopped: %v", stopped))
		}
		for _, container := range stopped {
			if images, err := l.ReadImagesOnDisk(ctx, container); err != nil || !slices.Contains(images, after) {
				return false, errors.Join(err, fmt.Errorf("%s has %v", container, images))
			}
		}
		return true, nil
	})
	if got := l.AwaitStandby(t, "roll", nodes); !slices.Equal(got, containers) {
		t.Errorf("the nodes are %v, want the same %v: an image is no reason to replace one", got, containers)
	}
}
