package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// answered takes in the cloud's answer to a stop or termination of the instance. A refusal becomes
// an event, once for each reason, and shows in Degraded of the pool.
func (c *Reconciler) answered(g gathered, reason v1alpha1.Reason, err error) {
	switch {
	case err == nil:
		c.Inventory.Accepted(g.instance.ID)
	case inventory.IsRefusal(err) && c.Inventory.Refused(g.instance.ID,
		inventory.Refusal{Reason: reason, Message: err.Error(), At: c.Now()}):
		c.event(g, corev1.EventTypeWarning, reason, inventory.Shortened(err.Error()))
	}
}
