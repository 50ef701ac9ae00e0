package pool

import (
	"context"
	"fmt"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// reserving is a class whose instances may be bound to one capacity reservation.
type reserving interface {
	IsBoundToReservation() bool
	ReservationEnded() bool
}

// reservationDegraded says that the reservation has ended without which no node of the pool starts,
// and how many nodes that are.
func (c *Reconciler) reservationDegraded(ctx context.Context, pool *v1alpha1.NodePool) (v1alpha1.Reason, string) {
	ref := pool.Spec.Template.NodeClassRef
	class, _, err := c.Classes.Get(ctx, ref)
	if err != nil {
		return "", "" // another condition says so
	}
	r, ok := class.(reserving)
	if !ok || !r.IsBoundToReservation() || !r.ReservationEnded() {
		return "", ""
	}
	return v1alpha1.ReasonReservationEnded, fmt.Sprintf(
		"the capacity reservation of %s %s has ended, and its preference Only allows nothing else: "+
			"%d standby nodes cannot start, and none is launched", ref.Kind, ref.Name, pool.Status.Standby)
}
