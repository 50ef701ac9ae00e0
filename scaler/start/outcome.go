package start

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// outcome is how a start ends whose node will not run: what is said of it, and what is written on
// the Node.
type outcome struct {
	reason v1alpha1.Reason
	words  string
	// refusal is what is counted; "" where the cloud has refused nothing.
	refusal Refusal
	// until is when the node may be started again, as far as is known before the Node is read.
	// Zero: at once, as another type.
	until time.Time
	step  func(n *corev1.Node) transition.Patch
	// began is when the start began that it ends, as the Node tells it; "" until the Node was read.
	began string
	// said: it is no event to come, nor to be counted again.
	said bool
}

// unwrittenError is about an outcome that is still to be written. The next step of the call writes
// it, and does not ask the cloud again.
type unwrittenError struct {
	outcome *outcome
	err     error
}

func (e *unwrittenError) Error() string { return fmt.Sprintf("end of a start: %v", e.err) }

// Unwrap returns the API server's own error.
func (e *unwrittenError) Unwrap() error { return e.err }

// keep has the next step of the call write the outcome that err is about, if it is about one.
func (s *Starter) keep(name v1alpha1.NodeName, trigger Trigger, err error) {
	unwritten := (*unwrittenError)(nil)
	if !errors.As(err, &unwritten) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, another := s.calls[name]; !another {
		s.calls[name] = openCall{trigger: trigger, outcome: unwritten.outcome}
	}
}

// end ends a start: the node backs off, its claims end, and their pods claim anew. Where the node
// may start as another type at once, they end when the cluster state shows it standby: then it is
// among the nodes that their pods are placed on. It reports whether the outcome was written: where
// another writer has moved the node on, that stands.
func (s *Starter) end(ctx context.Context, name v1alpha1.NodeName, o *outcome) (written bool, err error) {
	s.forget(name)
	if !o.until.IsZero() {
		// The cluster state may show the intent a moment longer, as room on a starting node.
		s.state.BackOffNode(name, o.until)
		// After the patch: a pod that is asked about before it would start another node while this one
		// names it still.
		defer s.state.StartFailed(name)
	}
	if written, err = s.write(ctx, name, o); err != nil {
		return false, &unwrittenError{o, err}
	}
	return written, nil
}

// write writes the outcome. What is published on the node meanwhile is no reason not to: then it is
// tried again.
func (s *Starter) write(ctx context.Context, name v1alpha1.NodeName, o *outcome) (written bool, err error) {
	for range giveUpTries {
		node := &corev1.Node{}
		// Live, because a cache may not show our own intent yet, and then its marks would stay on the
		// Node.
		if err := s.live.Get(ctx, client.ObjectKey{Name: string(name)}, node); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		began := node.Annotations[v1alpha1.AnnotationScaleUpStarted]
		if v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) != v1alpha1.StateStarting ||
			o.began != "" && o.began != began {
			return false, nil // another writer has moved it on
		}
		o.began = began
		if !o.said {
			s.say(node, o)
		}
		if o.until.IsZero() {
			s.unwrote(name) // what is written next is another start, which waits for nothing
		}
		if err = s.patch(ctx, node, o.step(node)); !apierrors.IsInvalid(err) {
			return err == nil, err
		}
	}
	return false, err
}

func (s *Starter) say(node *corev1.Node, o *outcome) {
	s.events.Eventf(node, nil, corev1.EventTypeWarning, string(o.reason), "Start", "%s", o.words)
	if o.refusal != "" {
		s.refused(v1alpha1.PoolName(node.Labels[v1alpha1.LabelPool]), o.refusal)
	}
	o.said = true
}

// failure is the outcome of a start that counts against the node, or of one that has taken too
// long: how long the node backs off depends on how many have failed before.
func (s *Starter) failure(name v1alpha1.NodeName, why string,
	step func(n *corev1.Node, until time.Time) transition.Patch) *outcome {
	return &outcome{
		reason: v1alpha1.ReasonStartFailed, words: why, until: s.now().Add(backoffFirst),
		step: func(n *corev1.Node) transition.Patch {
			until := s.now().Add(decide.Backoff{First: backoffFirst, Max: backoffMost}.After(transition.Failures(n) + 1))
			s.state.BackOffNode(name, until)
			return step(n, until)
		},
	}
}

// Fail gives a start up that the cloud accepted: the intent to stop the instance is written, the
// node backs off, its claims end, and their pods claim anew. The stop is the caller's. It is a
// conflict where the node is not starting any more: then nothing was written, and nothing is to be
// stopped. strike counts the failure against the node.
func (s *Starter) Fail(ctx context.Context, name v1alpha1.NodeName, strike bool, why string) error {
	written, err := s.end(ctx, name, s.failure(name, why, func(n *corev1.Node, until time.Time) transition.Patch {
		return transition.StartGivenUp(n, strike, s.now(), until)
	}))
	if err == nil && !written {
		return apierrors.NewConflict(corev1.Resource("nodes"), string(name), errMovedOn)
	}
	return err
}

var errMovedOn = errors.New("the node is not starting any more")

// Decline cancels a start that the cloud never accepted: the node is standby again and backs off
// without a strike, and its claims move. why is for its event.
func (s *Starter) Decline(ctx context.Context, name v1alpha1.NodeName, why string) error {
	return s.decline(ctx, name, declined{why: RefusedOther, reason: v1alpha1.ReasonStartFailed, words: why,
		until: s.now().Add(backoffFirst)})
}

// declined is a start that the cloud refused for no fault of the node's.
type declined struct {
	why    Refusal
	reason v1alpha1.Reason
	words  string
	// until is when the node may be started again. Zero: at once, as another type.
	until time.Time
	// kind is the type of the instance where the cloud was asked for it, else "".
	kind string
}

// decline cancels a start that the cloud refused for no fault of the node's: it backs off without a
// strike, and its claims move in the same step.
func (s *Starter) decline(ctx context.Context, name v1alpha1.NodeName, d declined) error {
	_, err := s.end(ctx, name, &outcome{
		reason: d.reason, words: d.words, refusal: d.why, until: d.until,
		step: func(n *corev1.Node) transition.Patch { return transition.StartDeclined(n, d.until, d.kind) },
	})
	return err
}
