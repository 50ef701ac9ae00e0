package start

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
)

const (
	// reservationsHeldFor is how long no reservation is set after the cloud did not allow Stratos to.
	reservationsHeldFor = 5 * time.Minute
	// reservationSetFor is how long a reservation that was set is not set again, whatever the cloud
	// shows: EC2 may word it otherwise, which must not lead to a call for each sweep.
	reservationSetFor = time.Hour
)

// reservationSet is what a node was last to be set to, and until when that is not asked again.
// refused: the cloud did not do it.
type reservationSet struct {
	want    v1alpha1.CapacityReservation
	until   time.Time
	refused bool
}

// isOutOfReservation reports whether the instance is set to a reservation, as far as the class
// tells, and has to leave it for this start.
func (s *Starter) isOutOfReservation(node *corev1.Node, o decide.Offering) bool {
	want, isKnown := s.state.ReservationFor(node, o.Type)
	return !s.openOf(v1alpha1.NodeName(node.Name)).leftReservation &&
		(isKnown && want.ID != "" ||
			node.Annotations[v1alpha1.AnnotationInstanceType] != "" && s.state.NamesReservation(node))
}

// leaveReservation has the instance started without its reservation. An error that another call
// would get too is a notLeftError.
func (s *Starter) leaveReservation(ctx context.Context, reserver provider.Reserver, node *corev1.Node) error {
	if s.state.ReservationsHeld() {
		return &notLeftError{errHeld}
	}
	err := reserver.SetReservation(ctx, string(InstanceOf(node)), v1alpha1.CapacityReservation{})
	switch {
	case err == nil:
		s.note(v1alpha1.NodeName(node.Name), func(open *openCall) { open.leftReservation = true })
		s.events.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonReservationChanged), "Start",
			"the instance starts without its capacity reservation, which has no room for it")
		return nil
	case provider.IsUnauthorized(err):
		s.state.HoldReservations(s.now().Add(reservationsHeldFor))
		return &notLeftError{err}
	case provider.IsInvalidConfig(err):
		return &notLeftError{err}
	case provider.IsIncorrectState(err), provider.IsNotFound(err):
		return nil // the answer to the start tells
	}
	return err
}

var errHeld = errors.New("the instance may not leave its capacity reservation, which has no room for it: " +
	"the cloud has lately not allowed Stratos to set reservations")

// notLeftError: the cloud does not let the instance start without its reservation.
type notLeftError struct{ err error }

func (e *notLeftError) Error() string { return e.err.Error() }

// Unwrap returns the cloud's own error.
func (e *notLeftError) Unwrap() error { return e.err }

// notLeft ends a start that the cloud refuses to make without the reservation.
func (s *Starter) notLeft(ctx context.Context, node *corev1.Node, why error) error {
	return s.decline(ctx, v1alpha1.NodeName(node.Name), declined{
		why: RefusedOther, reason: v1alpha1.ReasonReservationRefused, words: why.Error(),
		until: s.now().Add(reservationsHeldFor),
	})
}

// Reserves is what the standby node's instance is to be set to, which uses the reservations is as
// an instance of that type; nil where it stays as it is, or was lately to be set to the same, so
// that the cloud may still show it as it was.
func (s *Starter) Reserves(node *corev1.Node, kind string,
	is v1alpha1.CapacityReservation) *v1alpha1.CapacityReservation {
	if _, can := s.cloud.(provider.Reserver); !can || s.state.ReservationsHeld() {
		return nil
	}
	want, isKnown := s.state.ReservationFor(node, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.reserved[v1alpha1.NodeName(node.Name)]
	if !isKnown || want == is || want == last.want && s.now().Before(last.until) {
		return nil
	}
	return &want
}

// ForgetReservation takes in that the node is not standby: a start may take it out of its
// reservation. What the cloud refused to set it would refuse again.
func (s *Starter) ForgetReservation(node v1alpha1.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reserved[node].refused {
		delete(s.reserved, node)
	}
}

// SetReservation has the instance of a standby node without claims use the reservations from its
// next start on. It returns at once.
func (s *Starter) SetReservation(node v1alpha1.NodeName, want v1alpha1.CapacityReservation) {
	s.reservesAgain(node, reservationSet{want: want}, lifecycle.ConsistencyWait)
	s.mu.Lock()
	if _, open := s.calls[node]; !open {
		s.calls[node] = openCall{reserve: &want}
	}
	s.mu.Unlock()
	s.callQueue.Add(node)
}

// reservesAgain lets the node's reservation be set to the same again after so long.
func (s *Starter) reservesAgain(node v1alpha1.NodeName, set reservationSet, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.reserved, func(_ v1alpha1.NodeName, last reservationSet) bool { return !now.Before(last.until) })
	set.until = now.Add(after)
	s.reserved[node] = set
}

// setReservation sets what reservations the instance of a standby node uses, where no start has
// come in between. Starts of the node wait: they are calls of the same queue. What fails is asked
// for again when a later sweep shows the instance as it was.
func (s *Starter) setReservation(ctx context.Context, name v1alpha1.NodeName, want v1alpha1.CapacityReservation) {
	s.forgetReturn(name)
	reserver, can := s.cloud.(provider.Reserver)
	if s.state.ReservationsHeld() {
		return // since it was asked for another node was refused for want of the permission
	}
	node := &corev1.Node{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: string(name)}, node); err != nil || !can ||
		v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) != v1alpha1.StateStandby || len(s.claimed(name)) > 0 {
		return
	}
	err := reserver.SetReservation(ctx, string(InstanceOf(node)), want)
	switch {
	case err == nil:
		s.reservesAgain(name, reservationSet{want: want}, reservationSetFor)
		action, words := s.wordsOf(node, want)
		s.events.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonReservationChanged), action, "%s",
			words)
		return
	case provider.IsUnauthorized(err):
		s.state.HoldReservations(s.now().Add(reservationsHeldFor))
	case !provider.IsInvalidConfig(err):
		s.log.Info("reservation will be set again", "node", name, "error", err.Error())
		return
	}
	s.reservesAgain(name, reservationSet{want: want, refused: true}, reservationsHeldFor)
	s.events.Eventf(node, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonReservationRefused), "Reserve", "%s",
		err.Error())
}

// wordsOf says what the instance uses from now on. Events of one reason and action are a series
// that keeps the first one's words, so that leaving a reservation is another action.
func (s *Starter) wordsOf(node *corev1.Node, want v1alpha1.CapacityReservation) (action, words string) {
	ended := s.state.EndedReservation(node)
	switch {
	case want.Target() != "":
		return "Reserve", "the instance uses capacity reservation " + want.Target() + " from its next start on"
	case ended != "":
		return "Release", "capacity reservation " + ended + " has ended: the instance starts without it"
	case want.Preference == v1alpha1.ReservationNone:
		return "Release", "the instance uses no capacity reservation from its next start on"
	}
	return "Release", "the instance uses any open capacity reservation from its next start on"
}
