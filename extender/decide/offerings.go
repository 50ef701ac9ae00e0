package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Offering is what a cloud runs out of: instances of one type in one zone, where Reservation is set
// in that reservation (CapacityReservation.Binding), else On-Demand.
type Offering struct{ Zone, Type, Reservation string }

// What is the type, and the reservation where it needs one.
func (o Offering) What() string {
	switch o.Reservation {
	case "":
		return o.Type
	case string(v1alpha1.ReservationOnly):
		return o.Type + " in a capacity reservation"
	}
	return o.Type + " in capacity reservation " + o.Reservation
}

// OfferingOf reads the offering off a Node's labels; the zero Offering where one of them is
// missing: about that nothing is remembered, and only the refused node backs off.
func OfferingOf(labels map[string]string) Offering {
	o := Offering{Zone: labels[corev1.LabelTopologyZone], Type: labels[corev1.LabelInstanceTypeStable]}
	if o.Zone == "" || o.Type == "" {
		return Offering{}
	}
	return o
}

// StartOffering is what a start needs in the offering, of an instance that is to use the
// reservations: On-Demand capacity only where it may, and where the reservation has no room.
func (l *Claims) StartOffering(o Offering, r v1alpha1.CapacityReservation, now time.Time) Offering {
	if o == (Offering{}) || r.Binding() == "" {
		return o
	}
	reserved := o
	reserved.Reservation = r.Binding()
	if r.WithoutOnDemand() || l.ReservationsHeld(now) || l.unavailable.until(reserved, now).IsZero() {
		return reserved
	}
	return o
}

// ReservationsHeld reports whether no instance leaves its reservation now.
func (l *Claims) ReservationsHeld(now time.Time) bool { return now.Before(l.reservationsHeld) }

// HoldReservations tells the claims that no instance leaves its reservation until the given time.
func (l *Claims) HoldReservations(until time.Time) { l.reservationsHeld = until }

const (
	// offeringBackoffFirst and offeringBackoffMax bound how long an offering of which the cloud had
	// none is left alone.
	offeringBackoffFirst = 3 * time.Minute
	offeringBackoffMax   = 30 * time.Minute
	// BackoffAfterRefusal is how long one node is left alone whose start the cloud refused for a
	// reason of its own that passes.
	BackoffAfterRefusal = 10 * time.Second
)

// MarkOfferingUnavailable tells the claims that the cloud had no instance of the offering: its
// nodes get no claims for 3 min, doubling to 30. Refusals of calls that were under way
// together are one. It returns until when the refused node itself is to rest: only until every view
// shows what became of it, so that one success brings it back with the others.
func (l *Claims) MarkOfferingUnavailable(o Offering, now time.Time) time.Time {
	if o == (Offering{}) {
		return now.Add(offeringBackoffFirst)
	}
	l.unavailable.fail(o, now)
	return now.Add(BackoffAfterRefusal)
}

// MarkOfferingAvailable tells the claims that the cloud had an instance of the offering.
func (l *Claims) MarkOfferingAvailable(o Offering) {
	l.unavailable.finish(o) // ExpireBackoffs reports it: pods that the backoff kept waiting are to be tried again
}

// OfferingUnavailableUntil is when the node's offering may be tried again; zero where it may be
// now.
func (l *Claims) OfferingUnavailableUntil(o Offering, now time.Time) time.Time {
	return l.unavailable.until(o, now)
}

// expireNodeBackoffs reports whether the rest of a node has ended since the last call.
func (l *Claims) expireNodeBackoffs(now time.Time) bool {
	ended := false
	for node, until := range l.backingOff {
		if !now.Before(until) {
			delete(l.backingOff, node)
			ended = true
		}
	}
	return ended
}

// offeringReason words why no node of the offering is started, "" where one may be.
func (j *attempt) offeringReason(n *Node) string {
	if len(j.unavailable.byKey) == 0 {
		return ""
	}
	o := j.StartOffering(OfferingOf(n.Labels), n.Reservation, j.now)
	if n.State != v1alpha1.StateStandby || j.startRequested[n.Name] || j.unavailable.until(o, j.now).IsZero() {
		return ""
	}
	return "the cloud has no capacity for " + o.What() + " in " + o.Zone + " now"
}
