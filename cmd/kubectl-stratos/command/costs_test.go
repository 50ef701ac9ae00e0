package command

import (
	"testing"

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
	known := pricesOf([]v1alpha1.AWSNodeClass{
		class("with", &v1alpha1.Price{Currency: "USD", RunningPerHour: "0.104", StoppedPerHour: "0.008"}),
		class("without", nil),
	})
	for name, c := range map[string]struct {
		class  v1alpha1.NodeClassRef
		status v1alpha1.NodePoolStatus
		want   string
	}{
		"nodes of all states": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "with"},
			v1alpha1.NodePoolStatus{Standby: 100, Running: 10, Warmup: 1, Starting: 1, Stopping: 1, Terminating: 1}, "2.26 USD"},
		"no node":                 {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "with"}, v1alpha1.NodePoolStatus{}, "0.00 USD"},
		"a class without a price": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "without"}, v1alpha1.NodePoolStatus{Running: 1}, none},
		"no such class":           {v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "gone"}, v1alpha1.NodePoolStatus{Running: 1}, none},
		"a class of another kind": {v1alpha1.NodeClassRef{Kind: v1alpha1.KindKindNodeClass, Name: "with"}, v1alpha1.NodePoolStatus{Running: 1}, none},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.NodePool{Status: c.status}
			pool.Spec.Template.NodeClassRef = c.class
			if got := known.cell(pool); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
