package start

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// openCall is a call that the cloud has not accepted yet.
type openCall struct {
	trigger Trigger
	// node is the Node on which the intent was written at the given time, for the first call; nil for
	// any other.
	node *corev1.Node
	at   time.Time
	// returnTo is the type that a standby node is to be made; "" for a start.
	returnTo string
	// changedTo is the type that the instance was made for this start; a start that is asked for again
	// needs no second change. notChanged is why the cloud refused the change.
	changedTo  string
	notChanged error
	// leftReservation: the instance was taken out of its reservation for this start.
	leftReservation bool
	// reserve is what reservations a standby node's instance is to use; nil for another call.
	reserve *v1alpha1.CapacityReservation
	// outcome is the end of a start that the cloud has refused, while the Node does not say so yet.
	outcome *outcome
}

// isStart reports whether it is a call to start the node.
func (c *openCall) isStart() bool { return c.returnTo == "" && c.reserve == nil }

// sureFor is how long after its intent a call is made without another look at the Node: no
// start is given up sooner.
const sureFor = time.Second

// intended takes in that the intent stands, and has the cloud called.
func (s *Starter) intended(node *corev1.Node, trigger Trigger) {
	name := v1alpha1.NodeName(node.Name)
	s.mu.Lock()
	s.calls[name] = openCall{trigger: trigger, node: node, at: s.now()}
	s.mu.Unlock()
	s.callQueue.Add(name)
}

// StepCall makes the next call of the queue, as Start's workers do all the time. It waits while
// there is none.
func (s *Starter) StepCall(ctx context.Context) { s.nextCall(ctx, ctx) }

// nextCall makes one call. ctx is the Starter's, step that of the call. Once ctx has ended only
// first calls are made: the others are the next process's.
func (s *Starter) nextCall(ctx, step context.Context) bool {
	name, shutdown := s.callQueue.Get()
	if shutdown {
		return false
	}
	defer s.callQueue.Done(name)
	open, ok := s.takeOpen(name)
	if !ok || open.node == nil && ctx.Err() != nil {
		s.callQueue.Forget(name)
		return true
	}
	if open.returnTo != "" {
		s.returnType(step, name, open.returnTo)
		s.callQueue.Forget(name)
		return true
	}
	if open.reserve != nil {
		s.setReservation(step, name, *open.reserve)
		s.callQueue.Forget(name)
		return true
	}
	if err := s.callOpen(step, name, open); err != nil && ctx.Err() == nil {
		s.keep(name, open.trigger, err)
		s.log.Info("call will be made again", "node", name, "error", err.Error())
		s.callQueue.AddRateLimited(name)
		return true
	}
	s.callQueue.Forget(name)
	return true
}

func (s *Starter) callOpen(ctx context.Context, name v1alpha1.NodeName, open openCall) error {
	if open.outcome != nil {
		_, err := s.end(ctx, name, open.outcome)
		return err
	}
	if open.node != nil {
		open.node = s.asReturned(open.node)
		if returned, err := s.returnUnclaimed(ctx, name); returned || err != nil {
			return err
		}
		if declined, err := s.declineUnavailable(ctx, open.node); declined || err != nil {
			return err
		}
	}
	if open.node != nil && s.now().Sub(open.at) < sureFor {
		return s.call(ctx, open.node, open.trigger)
	}
	return s.retryCall(ctx, name, open.trigger)
}

// returnUnclaimed cancels a start whose claims have all ended before the cloud was called for it,
// and reports whether it did: the node is standby again. Calls wait for their limit in a burst, and
// pods that are deleted meanwhile, or bound elsewhere, need no node.
func (s *Starter) returnUnclaimed(ctx context.Context, name v1alpha1.NodeName) (bool, error) {
	for range giveUpTries {
		if len(s.claimed(name)) > 0 {
			return false, nil
		}
		node := &corev1.Node{}
		if err := s.live.Get(ctx, client.ObjectKey{Name: string(name)}, node); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) != v1alpha1.StateStarting ||
			len(s.publishedPods(node)) > 0 {
			return false, nil
		}
		if err := s.patch(ctx, node, transition.StartUnclaimed(node)); !apierrors.IsInvalid(err) {
			if err == nil {
				s.forget(name)
			}
			return err == nil, err
		}
	}
	return false, nil
}

// retryCall makes a call that was refused, or that another process left open. The Node is read from
// the API server: the leader may have given the start up since, and no instance must start behind a
// Node that says standby.
func (s *Starter) retryCall(ctx context.Context, name v1alpha1.NodeName, trigger Trigger) error {
	node := &corev1.Node{}
	err := s.live.Get(ctx, client.ObjectKey{Name: string(name)}, node)
	switch {
	case apierrors.IsNotFound(err):
		s.forget(name)
		s.state.StartFailed(name)
		return nil
	case err != nil:
		return err
	case v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) != v1alpha1.StateStarting:
		s.forget(name)
		return nil
	}
	return s.call(ctx, node, trigger)
}

// takeOpen returns the node's open call. What it says of the intent is for one call.
func (s *Starter) takeOpen(name v1alpha1.NodeName) (openCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open, ok := s.calls[name]
	if ok {
		again := open
		again.node, again.at = nil, time.Time{}
		s.calls[name] = again
	}
	return open, ok
}

// openOf returns the node's open call, an empty one where there is none.
func (s *Starter) openOf(name v1alpha1.NodeName) openCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// note adds to the node's open call, if there is one.
func (s *Starter) note(name v1alpha1.NodeName, add func(*openCall)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open, ok := s.calls[name]; ok {
		add(&open)
		s.calls[name] = open
	}
}

func (s *Starter) forget(name v1alpha1.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, name)
}
