package pool

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// supply counts what comes up or is standby, by zone.
func (c *Reconciler) supply(pool *v1alpha1.NodePool, nodes []corev1.Node, s slots) plan.Supply {
	states := map[string]v1alpha1.NodeState{}
	for i := range nodes {
		states[nodes[i].Spec.ProviderID] = v1alpha1.NodeState(nodes[i].Labels[v1alpha1.LabelState])
	}
	out := plan.Supply{Coming: map[string]int32{}, Standby: map[string]int32{}, Next: s.Next}
	for _, e := range c.Inventory.Of(v1alpha1.PoolName(pool.Name)) {
		switch states[e.ProviderID] {
		case "", v1alpha1.StateWarmup:
			out.Coming[e.Zone]++
		case v1alpha1.StateStandby:
			out.Standby[e.Zone]++
		default:
		}
	}
	for _, slot := range s.open[s.interrupted:] {
		if zone := s.Zones[slot]; zone != "" {
			out.Coming[zone]++
		}
	}
	return out
}

// in gives the last of the slots their zones.
func (s slots) in(zones []string) slots {
	s.Slots = s.InZones(zones)
	return s
}
