package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	const pool, instanceType = "bursts", "m5.xlarge"
	r := newRig(t)
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
		var pods []*corev1.Pod
		for j := range 5 {
			pods = append(pods, assert.OnPool(framework.Pod(fmt.Sprintf("burst-%d-%d", i+1, j+1), "cpu", burst.cpu), pool))
		}
		assert.Create(t, r, assert.Objects(pods)...)
		all = append(all, pods...)
		promised := awaitPromised(t, r, pods)
		// A start that is one too many shows here at the latest at the end, where the calls are counted
		// again.
		assert.Await(t, fmt.Sprintf("starts after burst %d", i+1), func(context.Context) (bool, error) {
			started := assert.Accepted(t, r, fake.OpStart, nodes)
			if len(started) >= burst.need {
				return true, nil
			}
			return false, fmt.Errorf("%d nodes are started, want %d: %s; promised: %v", len(started), burst.need, burst.why,
				promised)
		})
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
	assert.Release(t, r, ids...)
	bound := assert.AwaitBound(t, r, all...)
	assert.AwaitRunning(t, r, all...)
	for i, p := range all {
		if names := promises(r, p); len(names) != 1 || names[0] != bound[i] {
			t.Errorf("pod %s was promised %v and bound to %s", p.Name, names, bound[i])
		}
	}
	if got := assert.Accepted(t, r, fake.OpStart, nodes); len(got) != 5 {
		t.Errorf("%d starts in all, want 5: %+v", len(got), got)
	}
}

// awaitPromised waits until every pod has a claim, and returns the nodes.
func awaitPromised(t *testing.T, r *framework.Rig, pods []*corev1.Pod) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	assert.Await(t, "promises", func(context.Context) (bool, error) {
		for _, p := range pods {
			found[p.Name] = promises(r, p)
			if len(found[p.Name]) == 0 {
				return false, fmt.Errorf("pod %s is promised nothing", p.Name)
			}
		}
		return true, nil
	})
	return found
}

// promises are the nodes that the scheduler was ever told to be on their way for the pod, sorted.
func promises(r *framework.Rig, pod *corev1.Pod) []string {
	named := regexp.MustCompile(`starting standby node (\S+) of pool`)
	nodes := map[string]bool{}
	for _, a := range r.Recorder.About(framework.Filter, pod.UID) {
		for _, message := range a.Filter.FailedAndUnresolvableNodes {
			if m := named.FindStringSubmatch(message); m != nil {
				nodes[m[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}
