package ec2

import (
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
