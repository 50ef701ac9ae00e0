package cluster

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/extender/owners"
)

// takeSlot gives the pod the first claim of its owner that is for no pod yet, where that is for one
// of its shape. The caller holds mu.
func (s *State) takeSlot(o *owner, p *corev1.Pod, shape fit.Shape, now time.Time) {
	if !s.mayTakeSlot(p) {
		return
	}
	s.adoptSlots(o, now)
	if s.claims.HasClaim(p.UID) {
		return
	}
	slot, ok := s.claims.FirstToCome(o.uid)
	if !ok || shape != o.shape {
		return
	}
	if n := s.nodeOf(slot.Node); n != nil {
		s.arrived(s.claims.TakeSlot(slot.Pod, p, n, now), p)
	}
	if s.claims.CountToCome(o.uid) == 0 {
		s.claims.ReplicasServed(o.uid)
		o.template = nil
	}
}

// mayTakeSlot reports whether the pod waits, and has neither a claim nor a way of its own. A pod
// that a Node names has its claim there.
func (s *State) mayTakeSlot(p *corev1.Pod) bool {
	return !s.claims.HasClaim(p.UID) && !s.claims.IsPassing(p.UID) && !s.isDone(p) && !noLongerPending(p) &&
		decide.NominatedNode(p) == "" && decide.MayNotStart(p) == "" && s.published[p.UID] == "" &&
		len(p.Spec.SchedulingGates) == 0
}

// askedPod takes in that a scheduler asks about a pod, which our watch may not show yet. The caller
// holds mu.
func (s *State) askedPod(p *corev1.Pod, now time.Time) {
	ref := owners.Of(p)
	if ref == nil || s.claims.HasClaim(p.UID) {
		return
	}
	o := s.replicas.owners[ref.UID]
	if o != nil && s.claims.CountToCome(o.uid) > 0 {
		s.takeSlot(o, p, fit.ShapeOf(p), now)
	}
}

// adoptSlots takes over the claims of the owner that Nodes name by slots: for its pods that wait,
// the oldest first, then for replicas to come. The caller holds mu.
func (s *State) adoptSlots(o *owner, now time.Time) {
	if len(o.named) == 0 {
		return
	}
	var slots []types.UID
	for slot, node := range o.named {
		if c, taken := s.claims.Slot(slot); (!taken || c.Node != node) && s.nodeOf(node) != nil {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b types.UID) int {
		_, i, _ := decide.OwnerOfSlot(a)
		_, k, _ := decide.OwnerOfSlot(b)
		return cmp.Compare(i, k)
	})
	for _, slot := range slots {
		_, taken := s.claims.Slot(slot)
		pod := s.claimant(o, slot, now)
		if pod == nil {
			continue
		}
		adopted, released := s.claims.Adopt(pod, slot, s.nodeOf(o.named[slot]), now)
		s.claimsReleased(released, now)
		if c, _ := s.claims.Of(pod.UID); adopted && !taken && !c.ToCome() {
			s.arrived(c, pod)
		}
	}
}

// claimant is whose claim the slot is that a Node names: the pod that has it by now, the oldest of
// its owner's that waits, or one that stands for a replica to come. nil where there is neither. The
// caller holds mu.
func (s *State) claimant(o *owner, slot types.UID, now time.Time) *corev1.Pod {
	c, taken := s.claims.Slot(slot)
	if taken && !c.ToCome() {
		return s.pending[c.Pod]
	}
	if !taken {
		if pod := s.oldestWaiting(o); pod != nil {
			return pod
		}
		if s.replicasLeft(o, now) <= 0 {
			return nil
		}
	}
	return s.replica(o, slot)
}

// oldestWaiting is the oldest pod of the owner that may take a slot, nil for none. The caller holds
// mu.
func (s *State) oldestWaiting(o *owner) *corev1.Pod {
	may := slices.DeleteFunc(s.waiting(o), func(is sibling) bool { return !s.mayTakeSlot(is.pod) })
	if len(may) == 0 {
		return nil
	}
	return slices.MinFunc(may, sibling.compare).pod
}

// isUnknownSlot reports whether the cluster state cannot say whether the slot that a Node names
// is still wanted: the owner is not known, or wants more replicas and shows no pod that they would
// be like. The caller holds mu.
func (s *State) isUnknownSlot(slot, uid types.UID) bool {
	if _, taken := s.claims.Slot(slot); taken {
		return false
	}
	o := s.replicas.owners[uid]
	if o == nil || o.object == nil {
		return true
	}
	return s.replicasLeft(o, s.now()) > 0 && s.replica(o, slot) == nil
}
