package start

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// gathering is how long claims on a starting node wait after the last write to it. Its pods are
// asked about one after the other within that time, and each write to a Node has the scheduler ask
// about every pending pod again: in a burst that is what it would do most of the time.
const gathering = 200 * time.Millisecond

const (
	// knownAgain is how soon it is looked again whether the cluster state has what a Node names, and
	// knownWithin for how long after a claim that is waited for.
	knownAgain  = 10 * time.Millisecond
	knownWithin = time.Second
)

// publish writes the claims on a starting node to it, where they are not there yet; what comes soon
// after the last write waits, for more to come.
func (s *Starter) publish(ctx context.Context, node *corev1.Node) error {
	name := v1alpha1.NodeName(node.Name)
	p := transition.Claims(node, s.publishedPods(node))
	if p.Empty() {
		return nil
	}
	if s.isBehind(node) {
		s.queue.AddAfter(name, knownAgain)
		return nil
	}
	if wait := s.coalesceFor(name); wait > 0 {
		s.queue.AddAfter(name, wait)
		return nil
	}
	if err := s.patch(ctx, node, p); err != nil {
		return err
	}
	s.wrote(name)
	s.nominator.ClaimsWritten(name)
	return nil
}

// isBehind reports whether the cluster state has still to take in what the Node names. These claims
// stand, and ours may be released for them before they are written. Nothing is waited for longer
// than knownWithin: a pod may have gone before this process began.
func (s *Starter) isBehind(node *corev1.Node) bool {
	name := v1alpha1.NodeName(node.Name)
	claims := s.state.ClaimsOn(name)
	if !slices.ContainsFunc(claims, func(c decide.Claim) bool { return s.now().Sub(c.Since) < knownWithin }) {
		return false
	}
	for uid := range strings.SplitSeq(node.Annotations[v1alpha1.AnnotationClaims], ",") {
		ours := slices.ContainsFunc(claims, func(c decide.Claim) bool { return string(c.PublishedAs()) == uid })
		if uid != "" && !ours && s.state.IsBehind(name, types.UID(uid)) {
			return true
		}
	}
	return false
}

// wrote notes that claims were written to the node now.
func (s *Starter) wrote(name v1alpha1.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.written, func(_ v1alpha1.NodeName, at time.Time) bool { return now.Sub(at) > gathering })
	s.written[name] = now
}

// unwrote forgets that claims were written to the node.
func (s *Starter) unwrote(name v1alpha1.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, name)
}

// coalesceFor is how long more claims on the node are waited for; not above 0 where nothing was
// written to it lately.
func (s *Starter) coalesceFor(name v1alpha1.NodeName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[name].Add(gathering).Sub(s.now())
}

// publishedPods are the pods to name on a starting node: those with claims, and those that another
// replica has named there and that our cluster state does not know yet. To leave these out would
// end their claims.
func (s *Starter) publishedPods(node *corev1.Node) []types.UID {
	pods := s.claimed(v1alpha1.NodeName(node.Name))
	for uid := range strings.SplitSeq(node.Annotations[v1alpha1.AnnotationClaims], ",") {
		if uid := types.UID(uid); uid != "" && !slices.Contains(pods, uid) && s.state.IsUnknownPod(uid) {
			pods = append(pods, uid)
		}
	}
	return pods
}

// claimed is what the Node names our claims by, sorted.
func (s *Starter) claimed(name v1alpha1.NodeName) []types.UID {
	claims := s.state.ClaimsOn(name)
	uids := make([]types.UID, len(claims))
	for i := range claims {
		uids[i] = claims[i].PublishedAs()
	}
	slices.Sort(uids)
	return uids
}
