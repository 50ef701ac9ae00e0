package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestFiveLives: whatever one life writes on its Node is gone in the next.
func TestFiveLives(t *testing.T) {
	t.Parallel()
	const pool = "phoenix"
	r := assert.SharedRig(t)
	warm(t, r, shortLived(pool, 1), "m5.large")
	nodes := assert.PoolNodes(t, r, pool)
	standby := framework.BearingOf(assert.OnlyNode(t, r, pool))
	name := assert.OnlyNode(t, r, pool).Name

	var running framework.Bearing
	for life := 1; life <= 5; life++ {
		pod := framework.PoolPod(fmt.Sprintf("life-%d", life), pool, "cpu", "1")
		if on := assert.Serve(t, r, pod); on != name {
			t.Fatalf("life %d: pod is on %s, the pool's node is %s", life, on, name)
		}
		if life == 1 {
			running = framework.BearingOf(assert.AwaitNode(t, r, name, "settled", func(n *corev1.Node) bool {
				return assert.StateOf(n) == v1alpha1.StateRunning && len(n.Spec.Taints) == 0 &&
					framework.StandbyCondition(n) == corev1.ConditionFalse
			}))
		}
		awaitBearing(t, r, name, fmt.Sprintf("running in life %d", life), running)
		assert.Remove(t, r, pod)
		awaitBearing(t, r, name, fmt.Sprintf("standby after life %d", life), standby)
		if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != life {
			t.Fatalf("%d starts in %d lives", len(starts), life)
		}
	}
	if after := assert.OnlyNode(t, r, pool); after.UID != nodes[name].UID {
		t.Error("the Node is another object than in its first life")
	}
}

// awaitBearing waits until the Node bears just what is wanted: its steps are writes of several
// controllers. A mark that stays is a difference that never goes.
func awaitBearing(t *testing.T, r *framework.Rig, name, what string, want framework.Bearing) {
	t.Helper()
	assert.Await(t, "node "+name+" "+what, func(ctx context.Context) (bool, error) {
		n, err := framework.Read(ctx, r, assert.Node(name))
		if err != nil {
			return false, err
		}
		if diff := cmp.Diff(want, framework.BearingOf(n)); diff != "" {
			return false, errors.New("(-first life +now)\n" + diff)
		}
		return true, nil
	})
}
