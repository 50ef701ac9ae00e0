package start

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// typesHeldFor is how long no type is changed after the cloud did not allow Stratos to.
const typesHeldFor = 5 * time.Minute

// typeOf is the type that the standby node is to be changed to at its start, "" where it keeps its
// own. open says whether the cloud is not known to have none of it.
func (s *Starter) typeOf(node *corev1.Node) (as string, open bool) {
	as = s.state.StartType(v1alpha1.NodeName(node.Name))
	_, until, _ := s.state.StartOffering(withType(node, as))
	return as, until.IsZero()
}

// withType is the Node with the intent to change its instance's type, where there is one.
func withType(node *corev1.Node, as string) *corev1.Node {
	if as == "" {
		return node
	}
	is := node.DeepCopy()
	v1alpha1.SetInstanceType(is.Labels, as)
	if is.Annotations == nil {
		is.Annotations = map[string]string{}
	}
	is.Annotations[v1alpha1.AnnotationInstanceType] = as
	return is
}

// changeType makes the instance the type that the Node names, before it is started. done: the start
// has ended. An error without it is answered as one of the start.
func (s *Starter) changeType(ctx context.Context, node *corev1.Node) (done bool, err error) {
	kind := node.Annotations[v1alpha1.AnnotationInstanceType]
	changer, can := s.cloud.(provider.TypeChanger)
	name := v1alpha1.NodeName(node.Name)
	open := s.openOf(name)
	switch {
	case kind == "" || !can || open.changedTo == kind:
		return false, nil
	case open.notChanged != nil:
		return s.changeRefused(ctx, node, kind, open.notChanged)
	}
	err = changer.ChangeInstanceType(ctx, string(InstanceOf(node)), kind)
	switch {
	case err == nil:
		s.note(name, func(open *openCall) { open.changedTo = kind })
		s.events.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonInstanceTypeChanged), "Start",
			"the instance is %s now", kind)
		return false, nil
	case provider.IsInvalidConfig(err):
		s.state.RefuseType(name, kind)
	case provider.IsUnauthorized(err):
		s.state.HoldTypeChanges(s.now().Add(typesHeldFor))
	case provider.IsIncorrectState(err) && !isStopping(err):
		return false, nil // it starts already: the answer to the start tells
	default:
		// Also while it stops: a start after that would be one as the type before, and a lack of that
		// would count for the new one.
		return false, err
	}
	return s.changeRefused(ctx, node, kind, err)
}

func isStopping(err error) bool {
	var wrong *provider.IncorrectStateError
	return errors.As(err, &wrong) && wrong.State == provider.InstanceStopping
}

// startsAsFallback reports whether the node is started as another type than its first one, by a
// change for this start or one before. One that is bound to a reservation of its type can be no
// other, and without a failed start that counts it would be started without end.
func (s *Starter) startsAsFallback(node *corev1.Node) bool {
	types := s.state.TypesOf(v1alpha1.NodeName(node.Name))
	return node.Annotations[v1alpha1.AnnotationInstanceType] != "" ||
		slices.Index(types, node.Labels[corev1.LabelInstanceTypeStable]) > 0 && !s.state.IsBoundToReservation(node)
}

// startRefusedAsType ends a start that the cloud refuses to an instance of its type: it finds some
// things wrong only then. The instance is of that type, whatever reads that lag still show. It
// stays that where it can start as no other one now, and backs off as long as a type that is
// unavailable.
func (s *Starter) startRefusedAsType(ctx context.Context, node *corev1.Node, why error) error {
	kind := cmp.Or(node.Annotations[v1alpha1.AnnotationInstanceType], node.Labels[corev1.LabelInstanceTypeStable])
	s.state.RefuseType(v1alpha1.NodeName(node.Name), kind)
	return s.recordTypeRefusal(ctx, node, kind, why, backoffFirst)
}

// changeRefused ends a start as another type, kind, that the cloud refuses. What type the instance
// has is asked for: the Node names the other one. Where a process before this one has made it that,
// it may run already, and the start goes on.
func (s *Starter) changeRefused(ctx context.Context, node *corev1.Node, kind string, why error) (done bool, err error) {
	name := v1alpha1.NodeName(node.Name)
	instance, err := s.cloud.GetInstance(ctx, string(InstanceOf(node)))
	switch {
	case err != nil:
		s.note(name, func(open *openCall) { open.notChanged = why })
		return true, err
	case instance.Type == kind:
		s.note(name, func(open *openCall) { open.changedTo, open.notChanged = kind, nil })
		return false, nil
	}
	return true, s.recordTypeRefusal(ctx, node, instance.Type, why, decide.BackoffAfterRefusal)
}

// recordTypeRefusal ends a start as another type. kind is what the instance is.
func (s *Starter) recordTypeRefusal(ctx context.Context, node *corev1.Node, kind string, why error,
	backoff time.Duration) error {
	name := v1alpha1.NodeName(node.Name)
	return s.decline(ctx, name, declined{
		why: RefusedOther, reason: v1alpha1.ReasonInstanceTypeRefused, words: why.Error(), kind: kind,
		until: s.backoffUntil(name, s.now().Add(backoff)),
	})
}

// noCapacity is about a start of which the cloud has no capacity, in the offering.
func (s *Starter) noCapacity(ctx context.Context, node *corev1.Node, o decide.Offering, why error) error {
	name := v1alpha1.NodeName(node.Name)
	until := s.markUnavailable(node, o, why)
	return s.decline(ctx, name, declined{
		why: RefusedCapacity, reason: v1alpha1.ReasonInsufficientCapacity, words: why.Error(),
		until: s.backoffUntil(name, until),
	})
}

// markUnavailable takes in that the cloud has no capacity of the offering for the node. It returns
// until when the node is left alone.
func (s *Starter) markUnavailable(node *corev1.Node, o decide.Offering, why error) time.Time {
	own := decide.OfferingOf(node.Labels)
	until := s.state.MarkOfferingUnavailable(o, s.now())
	if o.Reservation != "" && !provider.IsReservation(why) {
		s.state.MarkOfferingUnavailable(own, s.now()) // it was no matter of the reservation
	}
	// Where a quota is used up, no type helps that counts against it too.
	if changer, can := s.cloud.(provider.TypeChanger); can && provider.IsQuota(why) {
		for _, kind := range s.state.TypesOf(v1alpha1.NodeName(node.Name)) {
			if kind != own.Type && changer.SharesQuota(kind, own.Type) {
				s.state.MarkOfferingUnavailable(decide.Offering{Zone: own.Zone, Type: kind}, s.now())
			}
		}
	}
	return until
}

// backoffUntil is until when a node backs off after a refusal: not at all where it can start as
// another type.
func (s *Starter) backoffUntil(name v1alpha1.NodeName, until time.Time) time.Time {
	if _, can := s.cloud.(provider.TypeChanger); can && s.state.MayStartAgain(name) {
		return time.Time{}
	}
	return until
}

// declineUnavailable ends a start before the cloud is called, where other nodes have shown
// meanwhile that it has none of the type, and the node can start as another one, or would have to
// leave its reservation for nothing. done: it has.
func (s *Starter) declineUnavailable(ctx context.Context, node *corev1.Node) (done bool, err error) {
	name := v1alpha1.NodeName(node.Name)
	o, until, leaves := s.state.StartOffering(node)
	if until.IsZero() {
		return false, nil
	}
	words := "the cloud had none of its type in its zone for another node"
	until = s.backoffUntil(name, until)
	switch {
	case until.IsZero():
		words += "; it is started as another type"
	case leaves && s.isOutOfReservation(node, o):
		words += ", and its capacity reservation has no room"
	default:
		return false, nil
	}
	return true, s.decline(ctx, name, declined{
		why: RefusedCapacity, reason: v1alpha1.ReasonInsufficientCapacity, words: words, until: until,
		kind: s.madeAgain(node),
	})
}

// returned is a node that was to be made the type at that time; kind is "" where it was not.
type returned struct {
	kind string
	at   time.Time
}

// madeAgain is the type that the instance of a starting Node was lately made again; "" where it was
// not, or is made another one for this start.
func (s *Starter) madeAgain(node *corev1.Node) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetOldReturns()
	if node.Annotations[v1alpha1.AnnotationInstanceType] != "" {
		return ""
	}
	return s.returned[v1alpha1.NodeName(node.Name)].kind
}

// asReturned is the Node of a start intent with the type that its instance was lately made again.
// Where the cache did not show that yet, or another process wrote what the cloud showed before, a
// refusal would count for the type before.
func (s *Starter) asReturned(node *corev1.Node) *corev1.Node {
	kind := s.madeAgain(node)
	if kind == "" {
		return node
	}
	is := node.DeepCopy()
	v1alpha1.SetInstanceType(is.Labels, kind)
	return is
}

// isOfType takes in that the node's instance was made the type.
func (s *Starter) isOfType(node v1alpha1.NodeName, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned[node] = returned{kind: kind, at: s.now()}
}

// Returns reports whether the standby node was lately to be made another type, so that the cloud
// may still show the one before.
func (s *Starter) Returns(node v1alpha1.NodeName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetOldReturns()
	_, returns := s.returned[node]
	return returns
}

// forgetOldReturns keeps what may not show yet. The caller holds mu.
func (s *Starter) forgetOldReturns() {
	now := s.now()
	maps.DeleteFunc(s.returned, func(_ v1alpha1.NodeName, r returned) bool {
		return now.Sub(r.at) >= lifecycle.ConsistencyWait
	})
}

// ReturnType has a standby node without claims changed back to the type. It returns at once.
func (s *Starter) ReturnType(node v1alpha1.NodeName, kind string) {
	s.mu.Lock()
	s.forgetOldReturns()
	s.returned[node] = returned{at: s.now()}
	if _, open := s.calls[node]; !open {
		s.calls[node] = openCall{returnTo: kind}
	}
	s.mu.Unlock()
	s.callQueue.Add(node)
}

// returnType changes the type of a standby node, where no start has come in between. Starts of the
// node wait: they are calls of the same queue. What fails is asked for again when the next sweep
// shows the type, after a backoff.
func (s *Starter) returnType(ctx context.Context, name v1alpha1.NodeName, kind string) {
	s.forgetReturn(name)
	changer, can := s.cloud.(provider.TypeChanger)
	node := &corev1.Node{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: string(name)}, node); err != nil || !can ||
		v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) != v1alpha1.StateStandby || len(s.claimed(name)) > 0 {
		return
	}
	if err := s.patch(ctx, node, transition.OfType(node, kind)); err != nil {
		return
	}
	err := changer.ChangeInstanceType(ctx, string(InstanceOf(node)), kind)
	switch {
	case err == nil:
		s.isOfType(name, kind)
		s.events.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonInstanceTypeChanged), "Return",
			"the instance is %s again", kind)
		return
	case provider.IsInvalidConfig(err):
		s.state.RefuseType(name, kind)
	case provider.IsUnauthorized(err):
		s.state.HoldTypeChanges(s.now().Add(typesHeldFor))
	default:
		s.log.Info("type will be changed again", "node", name, "error", err.Error())
		return
	}
	s.events.Eventf(node, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonInstanceTypeRefused), "Return", "%s",
		err.Error())
}

// forgetReturn forgets a call to return to a type or to set a reservation; one to start stands.
func (s *Starter) forgetReturn(name v1alpha1.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.calls[name]; !open.isStart() {
		delete(s.calls, name)
	}
}
