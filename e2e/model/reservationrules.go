package model

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// heldFor is how long no reservation is set again after the cloud refused it, less what a call
// takes.
const heldFor = 290 * time.Second

// reservationRules observe which reservations instances use.
type reservationRules struct {
	// said is when a class last came to say otherwise which ones.
	said map[string]time.Time
}

// notSet is when the cloud refused to set the instance of the Node so. Of an instance whose kubelet
// registers by another name nothing is remembered.
type notSet struct {
	node string
	want v1alpha1.CapacityReservation
	at   time.Time
}

func (r *rules) classChanged(before, after client.Object) {
	old, _ := before.(*v1alpha1.AWSNodeClass)
	class, _ := after.(*v1alpha1.AWSNodeClass)
	if old == nil || class == nil {
		return
	}
	if !equality.Semantic.DeepEqual(old.Spec.CapacityReservation, class.Spec.CapacityReservation) ||
		!equality.Semantic.DeepEqual(old.Status.CapacityReservation, class.Status.CapacityReservation) {
		r.said[class.Name] = r.w.now
		r.disturb() // what could not start now may, and the other way round
	}
}

// classOfNode is the class of the node's pool.
func (w *World) classOfNode(n *corev1.Node) *v1alpha1.AWSNodeClass {
	return w.api.class(classOf(poolNameOf(n)))
}

// usesOnly reports whether instances of the class use no On-Demand capacity.
func usesOnly(class *v1alpha1.AWSNodeClass) bool {
	named := class.Spec.CapacityReservation
	return named != nil && named.Preference == v1alpha1.ReservationOnly
}

// hasSaid reports whether each process has known for a while what the class says of reservations.
func (r *rules) hasSaid(class *v1alpha1.AWSNodeClass, d time.Duration) bool {
	return r.w.now.Sub(r.said[class.Name]) > d+r.w.trouble.watch
}

// saidBefore reports whether each process knew at that time what the node's class says of
// reservations, and that has not changed since.
func (r *rules) saidBefore(n *corev1.Node, at time.Time) bool {
	return at.Sub(r.said[classOf(poolNameOf(n))]) > 10*time.Second+r.w.trouble.watch
}

// namedOffering is what a start of the node needs while the reservation that its class names has
// room.
func (w *World) namedOffering(n *corev1.Node) offering {
	o := labelledOffering(n)
	o.in = bindingOf(wanted(w.classOfNode(n), o.zone, o.kind))
	return o
}

// offeringOf is what a start of the instance needs as it is set. isAsNamed is false where the
// process cannot know that: a person has set it, or it has not been set yet.
func (r *rules) offeringOf(p *process, i *instance, n *corev1.Node) (o offering, isAsNamed bool) {
	o, named := labelledOffering(n), r.w.namedOffering(n)
	o.in = bindingOf(i.uses())
	hasLeft := o.in == "" && r.w.now.Sub(p.unavailable[named]) < 170*time.Second
	return o, o == named || hasLeft
}

// setsReservation checks a call that sets what reservations an instance uses.
func (r *rules) setsReservation(p *process, i *instance, want v1alpha1.CapacityReservation) {
	r.destructive("start", i)
	n := r.w.api.node(i.node())
	if n == nil {
		return
	}
	class, isStandby := r.w.classOfNode(n), stateOf(n) == v1alpha1.StateStandby
	last := p.notSet[i.id]
	switch {
	case usesOnly(class) && want.Preference != v1alpha1.ReservationOnly && r.hasSaid(class, time.Minute):
		r.w.breaks("reservations", "%s leaves its reservation, and its class %s allows nothing else", i.id, class.Name)
	case last.node == n.Name && last.want == plain(want) && r.w.now.Sub(last.at) < heldFor &&
		!slices.ContainsFunc(r.w.api.on(n.Name), counts):
		// A start for a bound pod may try.
		r.w.breaks("reservations", "the reservation of %s is set again %s after that was refused", i.id,
			r.w.now.Sub(last.at))
	case isStandby && !p.barred.IsZero() && r.w.now.Sub(p.barred) > time.Second && r.w.now.Sub(p.barred) < heldFor:
		r.w.breaks("reservations", "the reservation of %s is set %s after Stratos was not allowed to", i.id,
			r.w.now.Sub(p.barred))
	}
}

// answeredReservation notes what the process is told.
func (r *rules) answeredReservation(p *process, i *instance, want v1alpha1.CapacityReservation, err error) {
	switch {
	case err == nil:
		delete(p.notSet, i.id)
	case provider.IsUnauthorized(err):
		p.barred = r.w.now
		fallthrough
	case provider.IsInvalidConfig(err):
		p.notSet[i.id] = notSet{i.node(), plain(want), r.w.now}
	}
}

// startsWithOnly checks a start that the cloud accepts: an instance that was launched when its
// class already allowed nothing but reservations runs in one.
func (r *rules) startsWithOnly(i *instance) {
	n := r.w.api.node(i.node())
	if n == nil || i.runsIn != "" || !i.meddled.IsZero() {
		return
	}
	class := r.w.classOfNode(n)
	if usesOnly(class) && i.launched.Sub(r.said[class.Name]) > time.Minute {
		r.w.breaks("reservations", "%s starts On-Demand, and its class %s does not allow that", i.id, class.Name)
	}
}

// endedForReservation checks that a node is not replaced because a reservation had no room.
func (r *rules) endedForReservation(n *corev1.Node) {
	i := r.w.machineOf(n)
	if i != nil && i.refusedSeat.After(i.started) && i.meddled.IsZero() && transition.Failures(n) == 0 &&
		v1alpha1.StopReason(n.Annotations[v1alpha1.AnnotationStopReason]) == v1alpha1.StopFailed {
		r.w.breaks("reservations", "%s is replaced, and all that was refused is a start in a reservation", n.Name)
	}
}

// mayRun reports whether the node's instance has power, or its class lets it start with what the
// cloud has.
func (w *World) mayRun(n *corev1.Node) bool {
	class, i := w.classOfNode(n), w.machineOf(n)
	if !usesOnly(class) || i == nil || i.state() != provider.InstanceStopped {
		return true
	}
	if w.types.refuses(i, i.kind(), refusedAtStart) {
		return false // and it is no other type where only this one is reserved
	}
	_, err := w.seatFor(wanted(class, i.zone, i.kind()), i.zone, i.kind())
	return err == nil
}

// isStranded reports whether the pod is bound to a node that does not run, and that its class lets
// start in a reservation alone, in which it does not.
func (w *World) isStranded(p *corev1.Pod) bool {
	n := w.api.node(p.Spec.NodeName)
	return n != nil && counts(p) && !w.mayRun(n)
}

// forceStranded is a person who deletes stranded pods by force: no kubelet ends them.
func (w *World) forceStranded() {
	for _, p := range w.api.pods() {
		if w.isStranded(p) {
			w.api.drop(kindPod, client.ObjectKeyFromObject(p))
		}
	}
}

// mayLaunch reports whether the class of the pool lets an instance be launched with what the cloud
// has.
func (w *World) mayLaunch(pool *v1alpha1.NodePool) bool {
	class := w.api.class(classOf(pool.Name))
	if !usesOnly(class) {
		return true
	}
	_, err := w.launchOffer(class)
	return err == nil
}

// isReservedFor reports whether the class of the node names a reservation of the type.
func (w *World) isReservedFor(n *corev1.Node, kind string) bool {
	status := w.classOfNode(n).Status.CapacityReservation
	return status != nil && !status.Ended && status.InstanceType == kind
}

// reservationsAtRest says which instance is not set as its class says. What a class does not say
// stays as it is.
func (w *World) reservationsAtRest() string {
	for _, n := range w.poolNodes() {
		i, class := w.machineOf(n), w.classOfNode(n)
		if i == nil || i.gone() || class.Spec.CapacityReservation == nil {
			continue
		}
		want := wanted(class, i.zone, i.kind())
		if r := w.reservation(want.ID); r != nil && r.ended {
			continue // with Only: no instance can be set to it any more, and none that is leaves it
		}
		if i.uses() != want {
			return fmt.Sprintf("%s is set to %+v, and its class wants %+v", i.id, i.uses(), want)
		}
	}
	return ""
}
