package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestWhatPoolsCost: a standby node costs its volumes, in all other states the instance too. A node
// of a fallback type costs what that type does. A node of a type that the class does not name now,
// and those of a class without a price, are counted as such and cost nothing.
func TestWhatPoolsCost(t *testing.T) {
	pool := func(name, class string) *v1alpha1.NodePool {
		p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: class}
		return p
	}
	class := func(name string, price *v1alpha1.Price) *v1alpha1.AWSNodeClass {
		c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.InstanceType, c.Status.Price = "m5.large", price
		return c
	}
	node := func(name, pool string, state v1alpha1.NodeState, kind string) *corev1.Node {
		n := nodeOf(name, pool, state, "", 0)
		n.Labels[corev1.LabelInstanceTypeStable] = kind
		return n
	}
	with := class("with", &v1alpha1.Price{Currency: "EUR", RunningPerHour: "0.5", StoppedPerHour: "0.25"})
	with.Status.InstanceTypes = []v1alpha1.InstanceTypeStatus{{Type: "m5.large", Usable: true},
		{Type: "m6i.large", Price: &v1alpha1.Price{Currency: "EUR", RunningPerHour: "4", StoppedPerHour: "0.25"}}}
	c := schemed(t, pool("priced", "with"), pool("unpriced", "without"), pool("lost", "missing"),
		with, class("without", nil), node("i", "priced", v1alpha1.StateRunning, "m6i.large"),
		node("a", "priced", v1alpha1.StateStandby, "m5.large"), node("b", "priced", v1alpha1.StateStandby, "m5.large"),
		node("c", "priced", v1alpha1.StateRunning, "m5.large"), node("d", "priced", v1alpha1.StateStopping, "m5.large"),
		node("e", "priced", v1alpha1.StateRunning, "m4.large"), node("f", "unpriced", v1alpha1.StateRunning, "m5.large"),
		node("g", "lost", v1alpha1.StateRunning, "m5.large"), node("h", "gone", v1alpha1.StateRunning, "m5.large"))
	want := `
# HELP stratos_nodepool_cost_per_hour What the pool's nodes of the state cost per hour, by the price of their instance type in the status of the node class. Nodes without a price are not in it.
# TYPE stratos_nodepool_cost_per_hour gauge
stratos_nodepool_cost_per_hour{currency="EUR",pool="priced",state="running"} 4.5
stratos_nodepool_cost_per_hour{currency="EUR",pool="priced",state="standby"} 0.5
stratos_nodepool_cost_per_hour{currency="EUR",pool="priced",state="stopping"} 0.5
# HELP stratos_nodepool_unpriced_nodes Nodes of the pool whose price is not known: the status of the node class has no price of the node's instance type.
# TYPE stratos_nodepool_unpriced_nodes gauge
stratos_nodepool_unpriced_nodes{pool="lost"} 1
stratos_nodepool_unpriced_nodes{pool="priced"} 1
stratos_nodepool_unpriced_nodes{pool="unpriced"} 1
`
	names := []string{"stratos_nodepool_cost_per_hour", "stratos_nodepool_unpriced_nodes"}
	if err := testutil.GatherAndCompare(registered(t, c), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
