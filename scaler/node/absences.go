package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// keepAbsent reports whether the Node is kept although the cloud does not know its instance,
// because too many would go. It says so once per pool.
func (c *Reconciler) keepAbsent(ctx context.Context, g gathered) (bool, error) {
	if err := c.Inventory.CountAbsent(ctx, c.Reader); err != nil {
		return false, err
	}
	kept, first := c.Inventory.Absences.Decide(g.instance.ID, g.instance.Pool(), c.Now())
	if kept && first {
		_, words := c.Inventory.Absences.DegradedBy(g.instance.Pool(), c.Inventory.Lacks)
		c.Events.Eventf(poolOrName(g), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonInstancesNotFound), "Repair", "%s",
			words)
	}
	return kept, nil
}
