package outages

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestCloudGone: the cloud's API answers nothing. Running nodes and their pods are left alone and
// no Node is taken for gone; what pods ask for meanwhile is written down, and carried out exactly
// when the cloud is back.
func TestCloudGone(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	warm(t, r, "cloudless", "m5.large")
	nodes := assert.PoolNodes(t, r, "cloudless")
	onPool := func(name string) *corev1.Pod {
		p := framework.PoolPod(name, "cloudless", "cpu", "1500m")
		assert.Create(t, r, p)
		return p
	}
	served := onPool("served")
	assert.AwaitRunning(t, r, served)
	before := refused(t, r)
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultOutage})
	var waiting []*corev1.Pod
	for i := 1; i < burstNodes; i++ {
		waiting = append(waiting, onPool(fmt.Sprintf("waiting-%d", i)))
	}
	// Long enough for three lists of instances that fail, and for each start to be refused more than
	// once.
	assert.Await(t, "refusals", func(context.Context) (bool, error) {
		now := refused(t, r)
		lists, starts := now[fake.OpList]-before[fake.OpList], now[fake.OpStart]-before[fake.OpStart]
		if lists >= 3 && starts >= 3*(burstNodes-1) {
			return true, nil
		}
		return false, fmt.Errorf("%d lists and %d starts refused", lists, starts)
	})
	assert.MustRun(t, r, served)
	now := assert.PoolNodes(t, r, "cloudless")
	for name := range nodes {
		if now[name] == nil {
			t.Errorf("node %s is gone", name)
		}
	}
	for id, v := range assert.PoolInstances(t, r, "cloudless") {
		if v.State == provider.InstanceTerminated {
			t.Errorf("instance %s was terminated", id)
		}
	}

	assert.Release(t, r)
	assert.AwaitRunning(t, r, append(waiting, served)...)
	exact(t, r, nodes)
}

// refused counts the calls that failed so far, by kind.
func refused(t *testing.T, r *framework.Rig) map[fake.Op]int {
	t.Helper()
	counts := map[fake.Op]int{}
	for _, c := range assert.Calls(t, r) {
		if c.Err != "" {
			counts[c.Op]++
		}
	}
	return counts
}
