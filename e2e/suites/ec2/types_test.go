package ec2

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/fake"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// typedNodes is the size of the pool whose first type has no capacity.
const typedNodes = 4

// TestFallbackTypes: no zone has capacity for the first type. The pool fills up with nodes of the
// first fallback type that can follow it, they stop and serve pods, and each type is refused no
// more often than there are launches under way. When the list names another type in its place, they
// are replaced.
func TestFallbackTypes(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	if err := r.Cloud.SetCapacity(t.Context(), []simcloud.Capacity{{Zone: "*", Type: "m5.large"}}); err != nil {
		t.Fatal(err)
	}
	pool, class := framework.Pool("types", typedNodes), framework.Class("types", "m5.large")
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	all := intstr.FromInt32(typedNodes)
	pool.Spec.Disruption.Budget = &all
	class.Spec.FallbackInstanceTypes = []string{"c5.large", "m6i.large"}
	assert.Warm(t, r, pool, class)
	checkLeftOut(t, r, class)
	checkTypes(t, r, pool.Name, "m6i.large")

	pods := framework.Pods(typedNodes, "burst", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitBound(t, r, pods...)
	assert.AwaitRunning(t, r, pods...)
	assert.Remove(t, r, assert.Objects(pods)...)
	assert.AwaitAllStandby(t, r, pool.Name, typedNodes)
	checkTypes(t, r, pool.Name, "m6i.large")

	leftOutAfterRefusals(t, r, pool, class)
	assert.Change(t, r, class, func(c *v1alpha1.AWSNodeClass) { c.Spec.FallbackInstanceTypes = []string{"m6i.xlarge"} })
	assert.AwaitNodes(t, r, pool.Name, "standby as m6i.xlarge", func(nodes map[string]*corev1.Node) bool {
		for _, n := range nodes {
			if n.Labels[corev1.LabelInstanceTypeStable] != "m6i.xlarge" {
				return false
			}
		}
		return assert.In(nodes, v1alpha1.StateStandby) == typedNodes
	})
	checkTypes(t, r, pool.Name, "m6i.xlarge")
	checkRefusals(t, r)
}

// leftOutAfterRefusals: EC2 refuses three nodes to start as the fallback type that they are. The
// fourth serves the pod, as it is, and the class leaves the type out. The spec changes, and the
// type is used again, though not on the three until their next stop: they start as the other one,
// without waiting for their backoff to end.
func leftOutAfterRefusals(t *testing.T, r *framework.Rig, pool *v1alpha1.NodePool, class *v1alpha1.AWSNodeClass) {
	t.Helper()
	const failing, other = "m6i.large", "m6i.xlarge"
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultInvalidConfig, Op: fake.OpStart, Type: failing,
		Count: typedNodes - 1})
	first := framework.Pod("first", "cpu", "1500m")
	assert.Create(t, r, first)
	assert.AwaitRunning(t, r, first)
	// The class is looked at every 5 minutes, and when a pool of it changes.
	assert.ChangePool(t, r, pool.Name, func(s *v1alpha1.NodePoolSpec) { s.Weight = new(int32(11)) })
	is := func(what string, usable bool, condition metav1.ConditionStatus) *metav1.Condition {
		now := assert.AwaitObject(t, r, class, what, func(c *v1alpha1.AWSNodeClass) bool {
			return slices.ContainsFunc(c.Status.InstanceTypes, func(s v1alpha1.InstanceTypeStatus) bool {
				return s.Type == failing && s.Usable == usable && s.Failed == !usable &&
					strings.Contains(s.Reason, "refused 3 starts") == !usable
			}) && meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, v1alpha1.ConditionInstanceTypesUsable, condition)
		})
		return meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionInstanceTypesUsable)
	}
	if c := is("refused type left out", false, metav1.ConditionFalse); !strings.Contains(c.Message, failing) {
		t.Errorf("condition %+v, want %s left out", c, failing)
	}
	assert.Change(t, r, class, func(c *v1alpha1.AWSNodeClass) { c.Spec.FallbackInstanceTypes = []string{failing, other} })
	is("used again after a change of the spec", true, metav1.ConditionTrue)
	pods := append(framework.Pods(typedNodes-1, "later", "cpu", "1500m"), first)
	assert.Create(t, r, assert.Objects(pods[:typedNodes-1])...)
	assert.AwaitRunning(t, r, pods...)
	kinds := map[string]int{}
	for _, n := range assert.PoolNodes(t, r, pool.Name) {
		kinds[n.Labels[corev1.LabelInstanceTypeStable]]++
	}
	if want := map[string]int{failing: 1, other: typedNodes - 1}; !maps.Equal(kinds, want) {
		t.Errorf("nodes are of the types %v, want %v", kinds, want)
	}
	assert.Remove(t, r, assert.Objects(pods)...)
	assert.AwaitAllStandby(t, r, pool.Name, typedNodes)
}

// checkLeftOut: the class is Ready, and says that a type with less memory is left out.
func checkLeftOut(t *testing.T, r *framework.Rig, class *v1alpha1.AWSNodeClass) {
	t.Helper()
	class = assert.AwaitObject(t, r, class, "a type left out", func(c *v1alpha1.AWSNodeClass) bool {
		return meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionInstanceTypesUsable)
	})
	got := meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionInstanceTypesUsable)
	if !strings.Contains(got.Message, "c5.large") || strings.Contains(got.Message, "m6i.large (") ||
		!meta.IsStatusConditionTrue(class.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("conditions %+v, want c5.large left out, and Ready", class.Status.Conditions)
	}
	assert.AwaitEvent(t, r, class, v1alpha1.ReasonInstanceTypesLeftOut, "c5.large")
}

// checkTypes: each instance of the pool that exists is of the type, and so says its Node.
func checkTypes(t *testing.T, r *framework.Rig, pool, instanceType string) {
	t.Helper()
	live := 0
	for id, view := range assert.PoolInstances(t, r, pool) {
		if view.State == provider.InstanceTerminated {
			continue
		}
		live++
		if view.Type != instanceType {
			t.Errorf("instance %s is of type %s, want %s", id, view.Type, instanceType)
		}
	}
	nodes := assert.PoolNodes(t, r, pool)
	for name, n := range nodes {
		if got := n.Labels[corev1.LabelInstanceTypeStable]; got != instanceType {
			t.Errorf("node %s is labelled %s, want %s", name, got, instanceType)
		}
	}
	if live != typedNodes || len(nodes) != typedNodes {
		t.Errorf("%d instances and %d nodes, want %d", live, len(nodes), typedNodes)
	}
}

// checkRefusals: EC2 refused the first type alone, once for each launch that was under way before
// the first answer.
func checkRefusals(t *testing.T, r *framework.Rig) {
	t.Helper()
	refused := 0
	for _, q := range requests(t, r, ec2test.RunInstances) {
		kind := q.Params["InstanceType"]
		if q.Code == "InsufficientInstanceCapacity" && kind == "m5.large" {
			refused++
		} else if q.Code != "" || kind == "c5.large" {
			t.Errorf("a launch as %s was answered %q", kind, q.Code)
		}
	}
	if refused == 0 || refused > typedNodes {
		t.Errorf("%d launches as m5.large were refused, want 1 to %d", refused, typedNodes)
	}
}
