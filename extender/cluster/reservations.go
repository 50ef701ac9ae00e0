package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// ReservationFor is what capacity reservations the Node's instance is to use, as an instance of
// that type. isKnown is false where the class says nothing, so that what is set by hand stays,
// where the class is not known, or the cloud has not said what it names. It is false too for a
// reservation that has ended, to which no instance can be set any more.
func (s *State) ReservationFor(n *corev1.Node, kind string) (want v1alpha1.CapacityReservation, isKnown bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(s.poolOf(n))
	if class == nil || class.Spec.CapacityReservation == nil {
		return want, false
	}
	want, isKnown = class.ReservationOf(kind, n.Labels[corev1.LabelTopologyZone])
	return want, isKnown && (want.ID == "" || !class.ReservationEnded())
}

// IsBoundToReservation reports whether the Node's instance runs in the reservation that its class
// names, as the type of that, or not at all.
func (s *State) IsBoundToReservation(n *corev1.Node) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(s.poolOf(n))
	return class != nil && class.IsBoundToReservation()
}

// NamesReservation reports whether the Node's class names one reservation.
func (s *State) NamesReservation(n *corev1.Node) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(s.poolOf(n))
	return class != nil && class.Spec.CapacityReservation != nil && class.Spec.CapacityReservation.ID != ""
}

// EndedReservation is the reservation that the Node's class names, "" where that has not ended.
func (s *State) EndedReservation(n *corev1.Node) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if class := s.types.classOf(s.poolOf(n)); class != nil && class.ReservationEnded() {
		return class.Spec.CapacityReservation.ID
	}
	return ""
}

// StartOffering is what a start of the Node's instance needs now, and until when that is left
// alone; zero where it is not. leaves says that the start does without a reservation, to which the
// instance may be set.
func (s *State) StartOffering(n *corev1.Node) (o decide.Offering, until time.Time, leaves bool) {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	o = decide.OfferingOf(n.Labels)
	class := s.types.classOf(s.poolOf(n))
	if class == nil {
		return o, s.claims.OfferingUnavailableUntil(o, now), false
	}
	want, _ := class.ReservationOf(o.Type, o.Zone)
	o = s.claims.StartOffering(o, want, now)
	named := class.Spec.CapacityReservation
	leaves = o.Reservation == "" && (named == nil || !named.WithoutOnDemand())
	return o, s.claims.OfferingUnavailableUntil(o, now), leaves
}

// HoldReservations takes in that the cloud lets Stratos set no reservation, until the given time:
// instances that are set to one start in that, or not at all.
func (s *State) HoldReservations(until time.Time) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	s.claims.HoldReservations(until)
	s.retype(now)
}

// ReservationsHeld reports whether the cloud lately let Stratos set no reservation.
func (s *State) ReservationsHeld() bool {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.ReservationsHeld(now)
}

// keepsReservation reports whether instances of the class cannot leave the reservation that it
// names, and so not become another type. The caller holds mu.
func (s *State) keepsReservation(class *v1alpha1.AWSNodeClass, now time.Time) bool {
	r := class.Spec.CapacityReservation
	return r != nil && r.ID != "" && (r.WithoutOnDemand() || s.claims.ReservationsHeld(now))
}

// reserve completes a node that is made anew. The caller holds mu.
func (s *State) reserve(n *decide.Node, pool *v1alpha1.NodePool) {
	class := s.types.classOf(pool)
	if class == nil {
		return
	}
	n.Reservation, _ = class.ReservationOf(n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone])
	if n.State == v1alpha1.StateStandby && n.NotStartable == "" && n.Reservation.WithoutOnDemand() &&
		class.ReservationEnded() {
		n.NotStartable = "capacity reservation " + n.Reservation.ID + " has ended"
	}
}

// reservesOtherwise reports whether instances of the class are to use other reservations now.
func reservesOtherwise(was, is *v1alpha1.AWSNodeClass) bool {
	return !equality.Semantic.DeepEqual(was.Spec.CapacityReservation, is.Spec.CapacityReservation) ||
		!equality.Semantic.DeepEqual(was.Status.CapacityReservation, is.Status.CapacityReservation)
}

// rebuildOf makes the nodes of the class anew. The caller holds mu.
func (s *State) rebuildOf(class *v1alpha1.AWSNodeClass) {
	for _, e := range s.nodes {
		if e.object != nil && e.node != nil && s.types.classOf(s.poolOf(e.object)) == class {
			s.rebuildFromNode(e)
		}
	}
}
