package decide

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// IsNewClaim reports whether the decision gives the pod a claim on a node that does not run yet.
func (k Kind) IsNewClaim() bool { return k == Started || k == Joined || k == Reclaimed }

// RecordQuestion takes in that the pod's scheduler asks about it: it does not bind it any more.
func (l *Claims) RecordQuestion(pod types.UID) { delete(l.passing, pod) }

// RecordPass takes in that the pod's scheduler is told that nodes without claims take it now. Until
// it asks again it binds the pod to one of them.
func (l *Claims) RecordPass(pod types.UID, now time.Time) { l.passing[pod] = now }

// IsPassing reports whether the pod's scheduler was told last that nodes without claims take it.
func (l *Claims) IsPassing(pod types.UID) bool {
	_, is := l.passing[pod]
	return is
}

// MayClaimAhead reports whether the pod may get a claim before its scheduler asks about it.
func (l *Claims) MayClaimAhead(pod *corev1.Pod, now time.Time) bool {
	if l.HasClaim(pod.UID) || l.IsPassing(pod.UID) || NominatedNode(pod) != "" || MayNotStart(pod) != "" {
		return false
	}
	why, _ := l.OwnerBackoff(pod, now)
	return why == ""
}

// DecideAhead decides about a pod before its scheduler asks, by the candidates of a pod of the same
// shape that was refused on all of them. It assumes the decision, and reports true, where that
// claims room on a node that does not run yet and whose pool makes claims ahead. Anything else is
// left to the scheduler's question.
func (l *Claims) DecideAhead(ask Ask, now time.Time) (Decision, bool) {
	d := Decide(l, ask, now)
	if !d.Kind.IsNewClaim() || !slices.ContainsFunc(ask.Nodes, func(n *Node) bool {
		return n.Name == d.Claim.Node && n.anticipates(ask.Pod)
	}) {
		return d, false
	}
	d.Claim.Ahead = true
	l.assume(ask.Pod.UID, &d, now)
	return d, true
}

// anticipates reports whether the node's pool makes claims for the pod, or for the replica to come
// that it stands for, before a scheduler asks.
func (n *Node) anticipates(pod *corev1.Pod) bool {
	if isSlot(pod) {
		return n.Anticipate == v1alpha1.AnticipateReplicas
	}
	return n.Anticipate != v1alpha1.AnticipateOff
}

// ClaimBeside claims room for a pod on the node on which one of the same shape was just given room,
// and reports whether there is some. For plain pods that is what DecideAhead comes to: the node was
// the best one, and is the fuller one now.
func (l *Claims) ClaimBeside(ask Ask, n *Node, now time.Time) (Decision, bool) {
	j := l.newAttempt(ask, now)
	if !n.anticipates(ask.Pod) || !j.digest(n).IsPlain() || !j.hasRoom(n, reach{}) {
		return Decision{}, false
	}
	d := Decision{Kind: Joined, Claim: j.newClaim(n)}
	d.Claim.Ahead = true
	if n.Cancellable() {
		d.Kind = Reclaimed
	}
	l.assume(ask.Pod.UID, &d, now)
	return d, true
}

// AddKeysOfClaims adds the keys of the labels by which claimed pods keep others away.
func (l *Claims) AddKeysOfClaims(keys fit.LabelKeys) {
	if l.antiAffinityClaims == 0 {
		return
	}
	for _, c := range l.byPod {
		keys.AddTerms(c.digest.AntiAffinity)
	}
}
