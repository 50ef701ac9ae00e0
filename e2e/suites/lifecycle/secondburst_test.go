package lifecycle

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestSecondBurstStartsOnlyWhatIsMissing: nodes of 4 cpu hold two pods of 1.5 cpu and one of 1 cpu.
// Five large pods need three nodes, ten need five, one fewer than twice the three; and five small
// ones more fit into what those leave over.
func TestSecondBurstStartsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	const pool, instanceType = "bursts", "m6i.xlarge"
	r := assert.SharedRig(t)
	warm(t, r, framework.Pool(pool, 8), instanceType)
	nodes := assert.PoolNodes(t, r, pool)
	assert.HoldStarts(t, r, instanceType, 0)

	var all []*corev1.Pod
	for i, burst := range []struct {
		cpu  string
		need int
		why  string
	}{
		{"1500m", 3, "five pods, two to a node"},
		{"1500m", 5, "ten pods, two to a node"},
		{"1", 5, "a small one beside each two"},
	} {
		pods := framework.PoolPods(5, fmt.Sprintf("burst-%d", i+1), pool, "cpu", burst.cpu)
		assert.Create(t, r, assert.Objects(pods)...)
		all = append(all, pods...)
		assert.AwaitClaims(t, r, pods...)
		// A start that is one too many shows here at the latest at the end, where the calls are counted
		// again.
		assert.Eventually(t, fmt.Sprintf("%d starts: %s", burst.need, burst.why), func(context.Context) (int, error) {
			return len(assert.Accepted(t, r, fake.OpStart, nodes)), nil
		}, func(n int) bool { return n >= burst.need })
		if got := len(assert.Accepted(t, r, fake.OpStart, nodes)); got != burst.need {
			t.Errorf("after burst %d %d nodes are started, want %d: %s", i+1, got, burst.need, burst.why)
		}
	}
	for name, n := range assert.PoolNodes(t, r, pool) {
		if assert.StateOf(n) == v1alpha1.StateRunning {
			t.Fatalf("node %s runs already, so this shows nothing", name)
		}
	}

	var ids []v1alpha1.InstanceID
	for _, c := range assert.Accepted(t, r, fake.OpStart, nodes) {
		ids = append(ids, c.Instance)
	}
	assert.Reboot(t, r, ids...)
	bound := assert.AwaitBound(t, r, all...)
	assert.AwaitRunning(t, r, all...)
	for i, p := range all {
		if names := r.Recorder.Starting(p.UID); len(names) != 1 || names[0] != bound[i] {
			t.Errorf("pod %s was told of %v and bound to %s", p.Name, names, bound[i])
		}
	}
	if got := assert.Accepted(t, r, fake.OpStart, nodes); len(got) != 5 {
		t.Errorf("%d starts in all, want 5: %+v", len(got), got)
	}
}
