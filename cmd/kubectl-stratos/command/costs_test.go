package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestCostOfAPool: the volumes of all nodes, and the instances of those that are not standby. A
// pool whose class has no price has no cost, which is not 0.
func TestCostOfAPool(t *testing.T) {
	class := func(name string, price *v1alpha1.Price) v1alpha1.AWSNodeClass {
		return v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.AWSNodeClassStatus{Price: price}}
	}
	types := class("types", &v1alpha1.Price{Currency: "USD", RunningPerHour: "1", StoppedPerHour: "0.5"})
	types.Spec.InstanceType = "m5.large"
	types.Status.InstanceTypes = []v1alpha1.InstanceTypeStatus{{Type: "m5.large"},
		{Type: "m6i.large", Price: &v1alpha1.Price{Currency: "USD", RunningPerHour: "3", StoppedPerHour: "0.75"}}}
	node := func(pool string, state v1alpha1.NodeState, kind string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			v1alpha1.LabelPool: pool, v1alpha1.LabelState: string(state), corev1.LabelInstanceTypeStable: kind}}}
	}
	known := pricesOf([]v1alpha1.AWSNodeClass{
		class("with", &v1alpha1.Price{Currency: "USD", RunningPerHour: "0.104", StoppedPerHour: "0.008"}),
		class("without", nil), types,
	}, []metav1.PartialObjectMetadata{
		node("types", v1alpha1.StateRunning, "m5.large"), node("types", v1alpha1.StateRunning, "m6i.large"),
		node("types", v1alpha1.StateStandby, "m6i.large"), node("types", v1alpha1.StateRunning, "m4.large"),
		node("another", v1alpha1.StateRunning, "m6i.large"),
	})
	for name, c := range map[string]struct {
		class  v1alpha1.NodeClassRef
		status v1alpha1.NodePoolStatus
		want   string
	}{
		"nodes of all states": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "with"},
			v1alpha1.NodePoolStatus{Standby: 100, Running: 10, Warmup: 1, Starting: 1, Stopping: 1, Terminating: 1}, "2.26 USD"},
		"nodes of fallback types, one instance without a Node": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass,
			Name: "types"}, v1alpha1.NodePoolStatus{Standby: 1, Running: 3, Warmup: 1}, "6.75 USD"},
		"no node":                 {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "with"}, v1alpha1.NodePoolStatus{}, "0.00 USD"},
		"a class without a price": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "without"}, v1alpha1.NodePoolStatus{Running: 1}, none},
		"no such class":           {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "gone"}, v1alpha1.NodePoolStatus{Running: 1}, none},
		"a class of another kind": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindKindNodeClass, Name: "with"}, v1alpha1.NodePoolStatus{Running: 1}, none},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: c.class.Name}, Status: c.status}
			pool.Spec.Template.NodeClassRef = c.class
			if got := known.cell(pool); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
