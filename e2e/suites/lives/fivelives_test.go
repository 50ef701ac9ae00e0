package lives

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/ground"
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestFiveLives: whatever one life writes on its Node is gone in the next.
func TestFiveLives(t *testing.T) {
	t.Parallel()
	const pool = "phoenix"
	r := newRig(t)
	warm(t, r, shortLived(pool, 1), "m5.large")
	nodes := ground.PoolNodes(t, r, pool)
	standby := rig.BearingOf(ground.OnlyNode(t, r, pool))
	name := ground.OnlyNode(t, r, pool).Name

	var running rig.Bearing
	for life := 1; life <= 5; life++ {
		pod := ground.OnPool(rig.Pod(fmt.Sprintf("life-%d", life), "cpu", "1"), pool)
		ground.Create(t, r, pod)
		if on := ground.AwaitBound(t, r, pod); on[0] != name {
			t.Fatalf("life %d: pod is on %s, the pool's node is %s", life, on[0], name)
		}
		ground.AwaitRunning(t, r, pod)
		if life == 1 {
			running = rig.BearingOf(ground.AwaitNode(t, r, name, "settled", func(n *corev1.Node) bool {
				return ground.StateOf(n) == v1alpha1.StateRunning && len(n.Spec.Taints) == 0 &&
					rig.StandbyCondition(n) == corev1.ConditionFalse
			}))
		}
		awaitBearing(t, r, name, fmt.Sprintf("running in life %d", life), running)
		ground.Remove(t, r, pod)
		awaitBearing(t, r, name, fmt.Sprintf("standby after life %d", life), standby)
		if starts := ground.Accepted(t, r, fake.OpStart, nodes); len(starts) != life {
			t.Fatalf("%d starts in %d lives", len(starts), life)
		}
	}
	if after := ground.OnlyNode(t, r, pool); after.UID != nodes[name].UID {
		t.Error("the Node is another object than in its first life")
	}
}

// awaitBearing waits until the Node bears just what is wanted: its steps are writes of several
// controllers. A mark that stays is a difference that never goes.
func awaitBearing(t *testing.T, r *rig.Rig, name, what string, want rig.Bearing) {
	t.Helper()
	ground.Await(t, "node "+name+" "+what, func(ctx context.Context) (bool, error) {
		n := &corev1.Node{}
		if err := r.Client.Get(ctx, keyOf(name), n); err != nil {
			return false, err
		}
		if diff := cmp.Diff(want, rig.BearingOf(n)); diff != "" {
			return false, errors.New("(-first life +now)\n" + diff)
		}
		return true, nil
	})
}
