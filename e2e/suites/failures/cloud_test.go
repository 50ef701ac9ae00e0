package failures

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	addFault(t, r, fake.Fault{Kind: fake.FaultInsufficientCapacity, Op: fake.OpLaunch, Type: kind, Count: 2,
		Reason: "InsufficientInstanceCapacity"})
	addFault(t, r, fake.Fault{Kind: fake.FaultLostAnswer, Op: fake.OpLaunch, Type: kind, Count: 1})
	p := framework.Pool("partial", 6)
	p.Spec.MinStandby = 4
	if err := r.Warm(t.Context(), p, framework.Class("partial", kind)); err != nil {
		t.Fatal(err)
	}
	instances := ofPool(t, r, "partial")
	if len(instances) != 4 {
		t.Errorf("%d instances were launched, want 4", len(instances))
	}
	ids := make([]v1alpha1.InstanceID, 0, len(instances))
	for id := range instances {
		ids = append(ids, id)
	}
	addFault(t, r, fake.Fault{Kind: fake.FaultRateLimit, Op: fake.OpTerminate, Instance: ids[0], Count: 1})
	addFault(t, r, fake.Fault{Kind: fake.FaultLostAnswer, Op: fake.OpTerminate, Instance: ids[1], Count: 1})
	if err := r.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	assert.Await(t, "deletion of the pool", func(ctx context.Context) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, errors.Join(err, fmt.Errorf("status %+v", p.Status))
	})
	for id, v := range ofPool(t, r, "partial") {
		if v.State != provider.InstanceTerminated {
			t.Errorf("instance %s of the deleted pool is %s", id, v.State)
		}
	}
}

// ofPool are the pool's instances, those that are gone included.
func ofPool(t *testing.T, r *framework.Rig, pool string) map[v1alpha1.InstanceID]fake.View {
	t.Helper()
	instances, err := assert.Instances(t.Context(), r, v1alpha1.LabelPool, pool)
	if err != nil {
		t.Fatal(err)
	}
	return instances
}

// respec changes the pool's spec.
func respec(t *testing.T, r *framework.Rig, pool *v1alpha1.NodePool, how func(*v1alpha1.NodePoolSpec)) {
	t.Helper()
	assert.Await(t, "change of pool "+pool.Name, func(ctx context.Context) (bool, error) {
		p := &v1alpha1.NodePool{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(pool), p); err != nil {
			return false, err
		}
		how(&p.Spec)
		err := r.Client.Update(ctx, p)
		return err == nil, err
	})
}

// expiredCredentials: the cloud refuses launches. The pool says so in the cloud's words, a standby
// node starts all the same, and when launches go through again the pool comes to its size.
func expiredCredentials(t *testing.T, r *framework.Rig) {
	const kind, words = "m6i.2xlarge", "ExpiredToken: the security token included in the request is expired"
	p := pool(t, r, "expired", kind, 1)
	addFault(t, r, fake.Fault{Kind: fake.FaultInvalidConfig, Op: fake.OpLaunch, Type: kind, Count: 2, Reason: words})
	respec(t, r, p, func(s *v1alpha1.NodePoolSpec) { s.PoolSize, s.MinStandby = 3, 2 })
	awaitWords(t, r, p, "LaunchFailed", words)
	before := assert.PoolNodes(t, r, "expired")
	pod := podOn("expired-1", "expired")
	assert.Create(t, r, pod)
	assert.AwaitRunning(t, r, pod)
	if starts := assert.Accepted(t, r, fake.OpStart, before); len(starts) != 1 {
		t.Errorf("%d starts of the nodes that stood by, want 1", len(starts))
	}
	awaitStandby(t, r, "expired", 2)
	awaitHealthy(t, r, p)
}

// awaitHealthy waits until the pool is not Degraded.
func awaitHealthy(t *testing.T, r *framework.Rig, of *v1alpha1.NodePool) {
	t.Helper()
	assert.Await(t, "health of pool "+of.Name, func(ctx context.Context) (bool, error) {
		p := &v1alpha1.NodePool{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), p); err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == v1alpha1.ConditionDegraded && c.Status == "False" {
				return true, nil
			}
		}
		return false, fmt.Errorf("conditions %+v", p.Status.Conditions)
	})
}

// fullSubnet: one of two subnets has no address left, so launches go to the other; then neither
// has, which the pool says.
func fullSubnet(t *testing.T, r *framework.Rig) {
	const kind, words = "r5.xlarge", "InsufficientFreeAddressesInSubnet"
	class := framework.Class("subnets", kind)
	class.Spec.SubnetIDs = []string{"subnet-0000000a", "subnet-0000000b"}
	p := framework.Pool("subnets", 6)
	p.Spec.MinStandby = 2
	if err := r.Warm(t.Context(), p, class); err != nil {
		t.Fatal(err)
	}
	zones := map[string]int{}
	full := ""
	for _, v := range ofPool(t, r, "subnets") {
		zones[v.Zone]++
		full = v.Zone
	}
	if len(zones) != 2 {
		t.Fatalf("zones %v: this shows nothing", zones)
	}
	addFault(t, r, fake.Fault{Kind: fake.FaultNoAddresses, Op: fake.OpLaunch, Type: kind, Zone: full})
	respec(t, r, p, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 4 })
	awaitStandby(t, r, "subnets", 4)
	after := map[string]int{}
	for _, v := range ofPool(t, r, "subnets") {
		after[v.Zone]++
	}
	if after[full] != zones[full] || len(after) != 2 {
		t.Errorf("instances by zone %v, before %s was full %v", after, full, zones)
	}
	addFault(t, r, fake.Fault{Kind: fake.FaultNoAddresses, Op: fake.OpLaunch, Type: kind, Count: 2, Reason: words})
	respec(t, r, p, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 5 })
	awaitWords(t, r, p, v1alpha1.ReasonInsufficientCapacity, words)
	awaitStandby(t, r, "subnets", 5)
	awaitHealthy(t, r, p)
}
