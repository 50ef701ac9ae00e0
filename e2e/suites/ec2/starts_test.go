package ec2

import (
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestStartsAsAnotherType: when the pods come, no zone has capacity for the type of the stopped
// instances. Each becomes the fallback type by one call and starts, and none is launched.
func TestStartsAsAnotherType(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	pool, class := framework.Pool("starts", typedNodes), framework.Class("starts", "m5.large")
	class.Spec.FallbackInstanceTypes = []string{"m6i.large"}
	assert.Warm(t, r, pool, class)
	checkTypes(t, r, pool.Name, "m5.large")
	if err := r.Cloud.SetCapacity(t.Context(), []simcloud.Capacity{{Zone: "*", Type: "m5.large"}}); err != nil {
		t.Fatal(err)
	}

	pods := framework.Pods(typedNodes, "burst", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitBound(t, r, pods...)
	assert.AwaitRunning(t, r, pods...)
	checkTypes(t, r, pool.Name, "m6i.large")
	checkChanges(t, r)
	for name, n := range assert.PoolNodes(t, r, pool.Name) {
		if kind := n.Annotations[v1alpha1.AnnotationInstanceType]; kind != "" {
			t.Errorf("node %s runs and is still to be made %s", name, kind)
		}
	}
}

// checkChanges: one change for each instance, none of them refused; and no launch after the
// warm-up.
func checkChanges(t *testing.T, r *framework.Rig) {
	t.Helper()
	changes := map[string]int{}
	for _, q := range requests(t, r, ec2test.ModifyInstanceAttribute) {
		if q.Code != "" {
			t.Errorf("a change of type was answered %q", q.Code)
		}
		for _, id := range q.Instances {
			changes[string(id)]++
		}
	}
	for id, n := range changes {
		if n != 1 {
			t.Errorf("the type of instance %s was changed %d times", id, n)
		}
	}
	if len(changes) != typedNodes {
		t.Errorf("the type of %d instances was changed, want %d", len(changes), typedNodes)
	}
	refused := 0
	for _, q := range requests(t, r, ec2test.StartInstances) {
		if q.Code == "InsufficientInstanceCapacity" {
			refused++
		}
	}
	// EC2 refuses a call for several instances as a whole; halving finds one of them in at most so
	// many.
	if most := 2*typedNodes - 1; refused == 0 || refused > most {
		t.Errorf("%d starts were refused, want 1 to %d: calls under way before the first answer", refused, most)
	}
	if launched := len(requests(t, r, ec2test.RunInstances)); launched != typedNodes {
		t.Errorf("%d launches, want the %d of the warm-up", launched, typedNodes)
	}
}
