package start

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// notWritten is about a failed write for the claims on a node. An error has it tried again. A
// refusal ends the claims once one is IntentTime old: another node may do. Without an answer they
// stay: no other node could be written either, and this one may have been.
func (s *Starter) notWritten(ctx context.Context, node *corev1.Node, err error) error {
	name := v1alpha1.NodeName(node.Name)
	if !refused(err) || !s.late(name) {
		return fmt.Errorf("write to node: %w", err)
	}
	live := &corev1.Node{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil {
		return err // also where the Node is gone: its event ends the claims
	}
	if live.Labels[v1alpha1.LabelState] == node.Labels[v1alpha1.LabelState] { // else our watch is behind
		s.releaseClaims(name, s.now().Add(backoffFirst), err.Error())
		return nil
	}
	return err
}

// late reports whether some claim on the node has waited for IntentTime.
func (s *Starter) late(name v1alpha1.NodeName) bool {
	for _, c := range s.state.ClaimsOn(name) {
		if s.now().Sub(c.Since) >= decide.IntentTime {
			return true
		}
	}
	return false
}

// releaseClaims ends the claims on a node that is not started, for their pods to be placed anew.
// The node backs off in the cluster state alone: on the Node that could not be written.
func (s *Starter) releaseClaims(name v1alpha1.NodeName, until time.Time, why string) {
	s.state.BackOffNode(name, until)
	claims := s.state.StartFailed(name)
	for i := range claims {
		if claims[i].ToCome() {
			continue
		}
		s.events.Eventf(claims[i].Ref.Object(), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonStartFailed), "Start",
			"node %s of pool %s is not started: %s", name, claims[i].Pool, why)
	}
}

// refused reports whether the API server has answered that it does not want the write. What passes
// by itself, or would be the same for any other node, is no refusal.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

const (
	// unreadyAfter is for how long intents may be due, and none be written, until this replica is not
	// ready.
	unreadyAfter = 2 * time.Minute
	// dueGap is the longest pause between two attempts of one such time: more than retryMost.
	dueGap = 30 * time.Second
)

// intents knows for how long start intents have been due without one being written.
type intents struct {
	now func() time.Time
	mu  sync.Mutex
	// since is when the first of them was due, zero where none is.
	since time.Time
	// failed is when an attempt last failed, and node which node that was about.
	failed time.Time
	node   v1alpha1.NodeName
	// common: the failures are not only refusals of one node, which a policy may be the reason of.
	common bool
	// writing is how many attempts are under way, moved when one of them last began or ended.
	writing int
	moved   time.Time
}

// begin takes in that an attempt begins.
func (i *intents) begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.since.IsZero() || i.writing == 0 && now.Sub(i.failed) > dueGap {
		i.since, i.node, i.common = now, "", false
	}
	i.writing++
	i.moved = now
}

// end takes in how an attempt ended.
func (i *intents) end(node v1alpha1.NodeName, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	i.writing--
	i.moved = now
	if err == nil {
		i.since, i.node, i.common = time.Time{}, "", false
		if i.writing > 0 {
			i.since = now
		}
		return
	}
	i.common = i.common || !refused(err) || i.node != "" && i.node != node
	i.node, i.failed = node, now
}

// overdue is an error while intents have been due for unreadyAfter and none was written.
func (i *intents) overdue() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	due := i.writing > 0 || now.Sub(i.failed) < dueGap
	hangs := i.writing > 0 && now.Sub(i.moved) >= dueGap
	if i.since.IsZero() || now.Sub(i.since) < unreadyAfter || !due || !i.common && !hangs {
		return nil
	}
	return fmt.Errorf("no start could be written to a Node for %s", now.Sub(i.since).Round(time.Second))
}

// Ready is an error while starts are due and none can be written: the scheduler is to ask another
// replica.
func (s *Starter) Ready() error { return s.intents.overdue() }
