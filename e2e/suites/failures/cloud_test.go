package failures

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// partialLaunch: of four launches the cloud refuses two, and of another it takes note and does not
// answer. Four instances come of it. Of the terminations one is refused and one is not answered,
// and nothing is left.
func partialLaunch(t *testing.T, r *framework.Rig) {
	const kind = "m5.2xlarge"
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultInsufficientCapacity, Op: fake.OpLaunch, Type: kind, Count: 2,
		Reason: "InsufficientInstanceCapacity"})
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultLostAnswer, Op: fake.OpLaunch, Type: kind, Count: 1})
	p := framework.Pool("partial", 6)
	p.Spec.MinStandby = 4
	assert.Warm(t, r, p, framework.Class("partial", kind))
	instances := assert.PoolInstances(t, r, "partial")
	if len(instances) != 4 {
		t.Errorf("%d instances were launched, want 4", len(instances))
	}
	ids := slices.Collect(maps.Keys(instances))
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultRateLimit, Op: fake.OpTerminate, Instance: ids[0], Count: 1})
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultLostAnswer, Op: fake.OpTerminate, Instance: ids[1], Count: 1})
	assert.Remove(t, r, p)
	for id, v := range assert.PoolInstances(t, r, "partial") {
		if v.State != provider.InstanceTerminated {
			t.Errorf("instance %s of the deleted pool is %s", id, v.State)
		}
	}
}

// expiredCredentials: the cloud refuses launches. The pool says so in the cloud's words, a standby
// node starts all the same, and when launches go through again the pool comes to its size.
func expiredCredentials(t *testing.T, r *framework.Rig) {
	const kind, words = "m6i.2xlarge", "ExpiredToken: the security token included in the request is expired"
	p := pool(t, r, "expired", kind, 1)
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultInvalidConfig, Op: fake.OpLaunch, Type: kind, Count: 2,
		Reason: words})
	assert.ChangePool(t, r, p.Name, func(s *v1alpha1.NodePoolSpec) { s.PoolSize, s.MinStandby = 3, 2 })
	assert.AwaitEvent(t, r, p, "LaunchFailed", words)
	before := assert.PoolNodes(t, r, "expired")
	pod := podOn("expired-1", "expired")
	assert.Serve(t, r, pod)
	if starts := assert.Accepted(t, r, fake.OpStart, before); len(starts) != 1 {
		t.Errorf("%d starts of the nodes that stood by, want 1", len(starts))
	}
	assert.AwaitStandby(t, r, "expired", 2)
	assert.AwaitCondition(t, r, p.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse)
}

// fullSubnet: one of two subnets has no address left, so launches go to the other; then neither
// has, which the pool says.
func fullSubnet(t *testing.T, r *framework.Rig) {
	const kind, words = "r5.xlarge", "InsufficientFreeAddressesInSubnet"
	class := framework.Class("subnets", kind)
	class.Spec.SubnetIDs = []string{"subnet-0000000a", "subnet-0000000b"}
	p := framework.Pool("subnets", 6)
	p.Spec.MinStandby = 2
	assert.Warm(t, r, p, class)
	zones := map[string]int{}
	full := ""
	for _, v := range assert.PoolInstances(t, r, "subnets") {
		zones[v.Zone]++
		full = v.Zone
	}
	if len(zones) != 2 {
		t.Fatalf("zones %v: this shows nothing", zones)
	}
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultNoAddresses, Op: fake.OpLaunch, Type: kind, Zone: full})
	assert.ChangePool(t, r, p.Name, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 4 })
	assert.AwaitStandby(t, r, "subnets", 4)
	after := map[string]int{}
	for _, v := range assert.PoolInstances(t, r, "subnets") {
		after[v.Zone]++
	}
	if after[full] != zones[full] || len(after) != 2 {
		t.Errorf("instances by zone %v, before %s was full %v", after, full, zones)
	}
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultNoAddresses, Op: fake.OpLaunch, Type: kind, Count: 2, Reason: words})
	assert.ChangePool(t, r, p.Name, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 5 })
	assert.AwaitEvent(t, r, p, v1alpha1.ReasonInsufficientCapacity, words)
	assert.AwaitStandby(t, r, "subnets", 5)
	assert.AwaitCondition(t, r, p.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse)
}
