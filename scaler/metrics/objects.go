package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// readTime bounds the reading for one scrape. The reader is a cache: it waits only while that is
// not filled yet.
const readTime = 2 * time.Second

// Objects are metrics that are read off the objects themselves at each scrape, so that each replica
// has them and the series of an object end with it.
type Objects struct {
	reader  client.Reader
	classes map[string]func() client.ObjectList
	now     func() time.Time

	pool, class, late, cost, unpriced *prometheus.Desc
}

// RegisterObjects registers them. classes make empty lists of the node classes that are served, by
// their kind.
func RegisterObjects(registerer prometheus.Registerer, reader client.Reader,
	classes map[string]func() client.ObjectList, now func() time.Time) error {
	return registerer.Register(&Objects{
		reader: reader, classes: classes, now: now,
		pool: prometheus.NewDesc("stratos_nodepool_condition",
			"1 for the status that the condition of the pool has, True, False or Unknown; 0 for the others.",
			[]string{"pool", "condition", "status"}, nil),
		class: prometheus.NewDesc("stratos_nodeclass_condition",
			"1 for the status that the condition of the node class has, True, False or Unknown; 0 for the others.",
			[]string{"kind", "class", "condition", "status"}, nil),
		late: prometheus.NewDesc("stratos_nodepool_overdue_nodes",
			"Nodes of the pool that are in their state for longer than it may last, and 5 minutes more: warmup, starting, stopping and terminating ones.",
			[]string{"pool", "state"}, nil),
		cost: prometheus.NewDesc("stratos_nodepool_cost_per_hour",
			"What the pool's nodes of the state cost per hour, by the price of their instance type in the status of the node class. Nodes without a price are not in it.",
			[]string{"pool", "state", "currency"}, nil),
		unpriced: prometheus.NewDesc("stratos_nodepool_unpriced_nodes",
			"Nodes of the pool whose price is not known: the status of the node class has no price of the node's instance type.",
			[]string{"pool"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (o *Objects) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.pool, o.class, o.late, o.cost, o.unpriced} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read has no series.
func (o *Objects) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	pools := &v1alpha1.NodePoolList{}
	if o.reader.List(ctx, pools, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		conditions(ch, o.pool, p.Status.Conditions, p.Name)
	}
	classes := o.readClasses(ctx)
	for ref, class := range classes {
		_, list := class.StatusParts()
		conditions(ch, o.class, *list, ref.Kind, ref.Name)
	}
	nodes := &corev1.NodeList{}
	if o.reader.List(ctx, nodes, client.HasLabels{v1alpha1.LabelPool}, client.UnsafeDisableDeepCopy) == nil {
		o.overdue(ch, pools.Items, nodes.Items)
		o.costs(ch, pools.Items, classes, nodes.Items)
	}
}

// readClasses reads the node classes of all kinds.
func (o *Objects) readClasses(ctx context.Context) map[v1alpha1.NodeClassRef]v1alpha1.NodeClass {
	classes := map[v1alpha1.NodeClassRef]v1alpha1.NodeClass{}
	for kind, list := range o.classes {
		all := list()
		if o.reader.List(ctx, all, client.UnsafeDisableDeepCopy) != nil {
			continue
		}
		_ = meta.EachListItem(all, func(object runtime.Object) error { // the function returns no error
			if class, is := object.(v1alpha1.NodeClass); is {
				classes[v1alpha1.NodeClassRef{Kind: kind, Name: class.GetName()}] = class
			}
			return nil
		})
	}
	return classes
}

// conditions writes the three series of each condition, after the labels of its object.
func conditions(ch chan<- prometheus.Metric, desc *prometheus.Desc, list []metav1.Condition, labels ...string) {
	for _, c := range list {
		for _, status := range []metav1.ConditionStatus{
			metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown,
		} {
			value := 0.0
			if c.Status == status {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value,
				append(append([]string{}, labels...), c.Type, string(status))...)
		}
	}
}

// overdue counts the nodes of each pool that stay too long in their state.
func (o *Objects) overdue(ch chan<- prometheus.Metric, pools []v1alpha1.NodePool, nodes []corev1.Node) {
	now, specs := o.now(), map[string]*v1alpha1.NodePoolSpec{}
	for i := range pools {
		specs[pools[i].Name] = &pools[i].Spec
	}
	type place struct{ pool, state string }
	count := map[place]int{}
	for i := range nodes {
		n := &nodes[i]
		if spec := specs[n.Labels[v1alpha1.LabelPool]]; spec != nil && isOverdue(n, spec, now) {
			count[place{n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelState]}]++
		}
	}
	for pool := range specs {
		for _, state := range []v1alpha1.NodeState{v1alpha1.StateWarmup, v1alpha1.StateStarting, v1alpha1.StateStopping,
			v1alpha1.StateTerminating} {
			ch <- prometheus.MustNewConstMetric(o.late, prometheus.GaugeValue, float64(count[place{pool, string(state)}]), pool,
				string(state))
		}
	}
}

// lateAfter is how much longer than its bound a state has to last until its node counts: the cloud
// takes some time at the end of each.
const lateAfter = 5 * time.Minute

func isOverdue(n *corev1.Node, spec *v1alpha1.NodePoolSpec, now time.Time) bool {
	state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	since, bound := v1alpha1.StateSince(n), spec.StateBound(state)
	if state == v1alpha1.StateWarmup && since.IsZero() { // the first one begins with the launch
		since = n.CreationTimestamp.Time
	}
	return bound > 0 && !since.IsZero() && now.Sub(since) > bound+lateAfter
}
