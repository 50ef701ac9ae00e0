package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/extender/owners"
)

// SetPod takes in an added or changed pod: one that is bound, or nominated by others and so on its
// way, occupies its node until it is finished. One that Stratos has nominated has a claim, which
// counts.
func (s *State) SetPod(p *corev1.Pod) {
	on := v1alpha1.NodeName(p.Spec.NodeName)
	if on == "" {
		on = decide.NominatedNode(p)
	}
	if fit.Finished(p) {
		on = ""
	}
	if s.isUnchangedBoundPod(p, on) {
		return
	}
	now, shape := s.now(), fit.ShapeOf(p) // before the lock: it takes longer than the rest
	s.mu.Lock()
	defer s.unlock()
	if _, known := s.boundPods.Load(p.UID); !known && p.Spec.NodeName != "" {
		s.claims.RecordBound(p, on)
	}
	s.place(p, on)
	adoptOn := s.trackPending(p, shape, now)
	if noLongerPending(p) {
		s.release(p, now)
	} else {
		s.claims.SetNominated(p.UID, on)
	}
	if p.Spec.NodeName != "" {
		s.releaseOverflow(s.nodeOf(v1alpha1.NodeName(p.Spec.NodeName)), now)
	}
	s.adopt(p, adoptOn, now)
	s.ownPod(p, shape, now)
}

// isUnchangedBoundPod reports whether the pod is bound, and counts on its node as before. It takes
// no lock that a decision holds.
func (s *State) isUnchangedBoundPod(p *corev1.Pod, on v1alpha1.NodeName) bool {
	stored, _ := s.boundPods.Load(p.UID)
	was, ok := stored.(boundPod)
	return ok && p.Spec.NodeName != "" && was.on == on && was.unchanged(p)
}

// boundPod is a bound pod as it counts on its node.
type boundPod struct {
	on v1alpha1.NodeName
	occupant
}

// releaseOverflow ends the claims for which the node has no room any more; nil is a node that is
// not known. The caller holds mu.
func (s *State) releaseOverflow(n *decide.Node, now time.Time) {
	if n != nil {
		s.claimsEnded(s.claims.ReleaseOverflow(n, now), now)
	}
}

// adopt takes over the claim of a pending pod, if a node names it. The caller holds mu.
func (s *State) adopt(p *corev1.Pod, name v1alpha1.NodeName, now time.Time) {
	if n := s.nodeOf(name); n != nil {
		_, released := s.claims.Adopt(p, p.UID, n, now)
		s.claimsReleased(released, now)
		if ref := owners.Of(p); ref != nil && s.replicas.owners[ref.UID] != nil {
			s.adoptSlots(s.owner(ref.UID), now) // the pod may have left one
		}
	}
}

// noLongerPending reports whether the pod is not pending any more.
func noLongerPending(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" || p.DeletionTimestamp != nil || fit.Finished(p)
}

// trackPending remembers a pending pod, and returns the node whose annotation names a claim of the
// pod, if there is one.
func (s *State) trackPending(p *corev1.Pod, shape fit.Shape, now time.Time) v1alpha1.NodeName {
	if noLongerPending(p) {
		s.dropPending(p, now)
		return ""
	}
	_, known := s.pending[p.UID]
	s.pending[p.UID] = p
	s.siblings.set(p.UID, shape)
	if known {
		return ""
	}
	return s.published[p.UID]
}

// dropPending takes in that the pod is not pending any more. The caller holds mu, and has placed
// the pod.
func (s *State) dropPending(p *corev1.Pod, now time.Time) {
	delete(s.pending, p.UID)
	s.siblings.remove(p.UID)
	if _, counts := s.podNode[p.UID]; !counts {
		s.gone[p.UID] = now
	}
}

func (s *State) nodeOf(name v1alpha1.NodeName) *decide.Node {
	if e := s.nodes[name]; e != nil {
		return e.node
	}
	return nil
}

// DeletePod takes in that a pod is gone.
func (s *State) DeletePod(p *corev1.Pod) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	s.place(p, "")
	s.dropPending(p, now)
	s.release(p, now)
	s.disownPod(p, now)
}

// release ends the claim of a pod that is not pending any more. The caller holds mu.
func (s *State) release(p *corev1.Pod, now time.Time) {
	if c, had := s.claims.Release(p.UID, v1alpha1.NodeName(p.Spec.NodeName), now); had {
		s.notifications.add(func() { s.Served(c, p) })
	}
}

// Served tells the listeners of a pod that waited and is bound or gone, by the claim that it had.
// The scaler calls it for a pod without a claim for which a warm node was opened.
func (s *State) Served(c decide.Claim, p *corev1.Pod) {
	for _, l := range s.listeners {
		if l.PodServed != nil {
			l.PodServed(c, p)
		}
	}
}

// place moves the pod's occupancy to the given node, "" for none. The caller holds mu.
func (s *State) place(p *corev1.Pod, on v1alpha1.NodeName) {
	was, counted := s.podNode[p.UID]
	if counted && was != on {
		delete(s.podNode, p.UID)
		s.boundPods.Delete(p.UID)
		if e := s.nodes[was]; e != nil {
			e.remove(p.UID)
			s.rebuildFromPods(e)
			s.forgetIfBare(was, e)
		}
	}
	if on == "" {
		return
	}
	e := s.entry(on)
	if o, ok := e.pods[p.UID]; !ok || !o.unchanged(p) { // else its new status says nothing that a decision reads
		s.podNode[p.UID] = on
		e.add(p)
		s.rebuildFromPods(e)
	}
	if p.Spec.NodeName != "" {
		s.boundPods.Store(p.UID, boundPod{on, e.pods[p.UID]})
	}
}

func (s *State) entry(name v1alpha1.NodeName) *nodeInfo {
	e := s.nodes[name]
	if e == nil {
		e = &nodeInfo{pods: map[types.UID]occupant{}, daemons: map[types.UID]int{}}
		s.nodes[name] = e
	}
	return e
}

func (s *State) forgetIfBare(name v1alpha1.NodeName, e *nodeInfo) {
	if e.object == nil && len(e.pods) == 0 {
		delete(s.nodes, name)
	}
}
