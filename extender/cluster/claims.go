package cluster

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// claimsEnded queues the listeners' calls for claims that ended although their pods are still
// pending. Every replica sees that, and only the one that made a claim is to place its pod anew:
// two that did would claim two nodes for it, and start both. The caller holds mu.
func (s *State) claimsEnded(claims []decide.Claim, now time.Time) {
	var own []decide.Claim
	toCome := ReplicasEnded{Adopted: true}
	for i := range claims {
		switch {
		case claims[i].ToCome(): // no pod is to be placed anew
			toCome.Claims++
			toCome.Adopted = toCome.Adopted && claims[i].Adopted
		case claims[i].Adopted:
			s.followRemoteClaim(&claims[i], now)
		default:
			own = append(own, claims[i])
		}
	}
	if toCome.Claims > 0 {
		s.tellReplicasEnded(toCome)
	}
	for _, l := range s.listeners {
		if l.ClaimsLost != nil && len(own) > 0 {
			s.notifications.add(func() { l.ClaimsLost(own) })
		}
	}
}

// claimsReleased is claimsEnded for claims that were not published and were released for one that
// is. One that was made ahead is known to this replica alone, and its pod is left to the replica
// that is asked about it: the pod would have two otherwise. The caller holds mu.
func (s *State) claimsReleased(claims []decide.Claim, now time.Time) {
	var asked []decide.Claim
	for i := range claims {
		if claims[i].Ahead && !claims[i].ToCome() {
			s.followRemoteClaim(&claims[i], now)
		} else {
			asked = append(asked, claims[i])
		}
	}
	s.claimsEnded(asked, now)
}

// followRemoteClaim takes over the claim that another replica has made for the pod of an ended one,
// if the Node of that was seen first. The caller holds mu.
func (s *State) followRemoteClaim(c *decide.Claim, now time.Time) {
	pod, at := s.pending[c.Pod], s.published[c.Pod]
	if pod != nil && at != "" && at != c.Node {
		s.adopt(pod, at, now)
		return
	}
	for _, l := range s.listeners {
		if l.RemoteClaimLost != nil {
			s.notifications.add(func() { l.RemoteClaimLost(types.NamespacedName{Namespace: c.Ref.Namespace, Name: c.Ref.Name}) })
		}
	}
}

// IsUnknownPod reports whether the cluster state has not shown the pod, or not recently: another
// replica may know it. The same is asked of the slot of a replica to come.
func (s *State) IsUnknownPod(pod types.UID) bool {
	if owner, _, isSlot := decide.OwnerOfSlot(pod); isSlot {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.isUnknownSlot(pod, owner)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, counts := s.podNode[pod]
	_, gone := s.gone[pod]
	return !counts && !gone && s.pending[pod] == nil
}

// IsBehind reports whether the cluster state has not shown the pod, or has not shown that the Node
// names it.
func (s *State) IsBehind(node v1alpha1.NodeName, pod types.UID) bool {
	_, _, isSlot := decide.OwnerOfSlot(pod)
	if !isSlot && s.IsUnknownPod(pod) {
		return true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.nodes[node]
	return (isSlot || s.pending[pod] != nil) && (e == nil || !slices.Contains(e.published, pod))
}

// restorePoolLabel puts back, for us, the pool's label that was removed from a Node which shows its
// state. The leader is about to write it again. Without the node in the meantime, another one would
// be started for the pods with claims on this one.
func restorePoolLabel(was, n *corev1.Node) *corev1.Node {
	if was == nil || was.UID != n.UID || n.Labels[v1alpha1.LabelPool] != "" || n.Labels[v1alpha1.LabelState] == "" ||
		was.Labels[v1alpha1.LabelPool] == "" {
		return n
	}
	n = n.DeepCopy()
	n.Labels[v1alpha1.LabelPool] = was.Labels[v1alpha1.LabelPool]
	return n
}

// unpublish forgets the claims that the Node's annotation had named.
func (s *State) unpublish(name v1alpha1.NodeName, e *nodeInfo) {
	for _, uid := range e.published {
		if s.published[uid] == name {
			delete(s.published, uid)
		}
		if of, _, isSlot := decide.OwnerOfSlot(uid); isSlot {
			o := s.owner(of)
			if o.named[uid] == name {
				delete(o.named, uid)
			}
			s.forgetOwnerIfBare(o)
		}
	}
	e.published = nil
}

// publish reads the claims that the Node's annotation names, and returns what they are named by,
// those of the pods that are pending, and the owners of the slots.
func (s *State) publish(n *corev1.Node) (published []types.UID, waiting []*corev1.Pod, slotsOf []*owner) {
	name := v1alpha1.NodeName(n.Name)
	e := s.entry(name)
	s.unpublish(name, e)
	for uid := range strings.SplitSeq(n.Annotations[v1alpha1.AnnotationClaims], ",") {
		if uid == "" {
			continue
		}
		s.published[types.UID(uid)] = name
		e.published = append(e.published, types.UID(uid))
		if of, _, isSlot := decide.OwnerOfSlot(types.UID(uid)); isSlot {
			o := s.owner(of)
			o.named[types.UID(uid)] = name
			if !slices.Contains(slotsOf, o) {
				slotsOf = append(slotsOf, o)
			}
		}
		if pod := s.pending[types.UID(uid)]; pod != nil {
			waiting = append(waiting, pod)
		}
	}
	return e.published, waiting, slotsOf
}
