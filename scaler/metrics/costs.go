package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// priced is a node class that may know what an instance costs.
type priced interface {
	PriceOf(instanceType string) *v1alpha1.Price
}

// priceOf is the price of the node as its pool's class has it; nil where it is not known.
func priceOf(class v1alpha1.NodeClass, n *corev1.Node) *v1alpha1.Price {
	p, has := class.(priced)
	if !has {
		return nil
	}
	return p.PriceOf(n.Labels[corev1.LabelInstanceTypeStable])
}

// place is where a cost belongs.
type place struct {
	pool     string
	state    v1alpha1.NodeState
	currency string
}

// costs writes what the nodes of each pool cost, and how many have no price. A node whose pool is
// gone is not counted.
func (o *Objects) costs(ch chan<- prometheus.Metric, pools []v1alpha1.NodePool,
	classes map[v1alpha1.NodeClassRef]v1alpha1.NodeClass, nodes []corev1.Node) {
	unpriced, classOf, cost := map[string]int{}, map[string]v1alpha1.NodeClass{}, map[place]float64{}
	for i := range pools {
		unpriced[pools[i].Name] = 0
		classOf[pools[i].Name] = classes[pools[i].Spec.Template.NodeClassRef]
	}
	for i := range nodes {
		n := &nodes[i]
		pool := n.Labels[v1alpha1.LabelPool]
		if _, exists := unpriced[pool]; !exists {
			continue
		}
		price := priceOf(classOf[pool], n)
		if price == nil {
			unpriced[pool]++
			continue
		}
		state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
		cost[place{pool, state, price.Currency}] += price.PerHour(state)
	}
	for at, amount := range cost {
		ch <- prometheus.MustNewConstMetric(o.cost, prometheus.GaugeValue, amount, at.pool, string(at.state), at.currency)
	}
	for pool, n := range unpriced {
		ch <- prometheus.MustNewConstMetric(o.unpriced, prometheus.GaugeValue, float64(n), pool)
	}
}
