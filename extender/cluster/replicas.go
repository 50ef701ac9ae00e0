package cluster

import (
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/extender/owners"
)

// creationGap is how long an owner may create no pod while claims for its replicas to come stand.
const creationGap = 60 * time.Second

// ownerWithReplicas is the owner of the pod if it is to create more of them, "" otherwise. The
// caller holds mu.
func (s *State) ownerWithReplicas(pod *corev1.Pod) types.UID {
	ref := owners.Of(pod)
	if ref == nil || s.replicas.owners[ref.UID] == nil || s.replicasLeft(s.owner(ref.UID), s.now()) <= 0 {
		return ""
	}
	return ref.UID
}

// replicasToClaim is for how many replicas to come claims are to be made. The caller holds mu.
func (s *State) replicasToClaim(w *Siblings, now time.Time) int {
	o := s.replicas.owners[w.owner]
	if o == nil || s.claims.ReplicasBackOff(o.uid, now) || s.replica(o, decide.SlotOf(o.uid, 0)) == nil ||
		o.shape != w.shape {
		return 0
	}
	return s.replicasLeft(o, now)
}

// nextReplica stands for the next replica to come; nil where there is none. The caller holds mu.
func (s *State) nextReplica(w *Siblings) *corev1.Pod {
	if w.toCome <= 0 {
		return nil
	}
	o := s.owner(w.owner)
	for s.claims.HasSlot(o.uid, w.slot) || o.named[decide.SlotOf(o.uid, w.slot)] != "" {
		w.slot++
	}
	return s.replica(o, decide.SlotOf(o.uid, w.slot))
}

// ReplicasClaimed says that claims were made for replicas that their owner is still to create.
type ReplicasClaimed struct {
	Owner client.Object
	// Claims are the replicas, Starts the nodes that start for them.
	Claims, Starts int
}

// tellReplicasClaimed tells the listeners. The caller holds mu.
func (s *State) tellReplicasClaimed(w *Siblings) {
	o := s.replicas.owners[w.owner]
	if w.claimed == 0 || o == nil || o.object == nil {
		return
	}
	told := ReplicasClaimed{Owner: o.object, Claims: w.claimed, Starts: w.starts}
	for _, l := range s.listeners {
		if l.ReplicasClaimed != nil {
			s.notifications.add(func() { l.ReplicasClaimed(told) })
		}
	}
}

// arrived tells the listeners that a pod has taken the claim of a replica that was to come. The
// caller holds mu.
func (s *State) arrived(c decide.Claim, p *corev1.Pod) {
	for _, l := range s.listeners {
		if l.ReplicaCame != nil {
			s.notifications.add(func() { l.ReplicaCame(c, p) })
		}
	}
}

// replica is a pod that stands for a replica to come in the slot, nil where no pod of the owner is
// known that it would be like. The caller holds mu.
func (s *State) replica(o *owner, slot types.UID) *corev1.Pod {
	if s.claims.CountToCome(o.uid) == 0 {
		o.template, o.shape = nil, fit.Shape{}
		if waiting := s.waiting(o); len(waiting) > 0 {
			o.template = slices.MaxFunc(waiting, sibling.compare).pod
			o.shape = s.siblings.shapes[o.template.UID]
		}
	}
	if o.template == nil {
		return nil
	}
	pod := *o.template
	pod.UID, pod.Name = slot, o.template.Name+" and others to come"
	return &pod
}

// replicasLeft is for how many replicas of the owner claims may be made in addition to those that
// stand. The caller holds mu.
func (s *State) replicasLeft(o *owner, now time.Time) int {
	toCome := s.toCome(o, now)
	if toCome > 0 {
		toCome = min(toCome, s.allowed(o, owners.Allowed))
	}
	return toCome - s.claims.CountToCome(o.uid)
}

// replicasOver is how many of the owner's claims that stand are for replicas which will not come. A
// quota may have counted pods that are not known yet, which are to take these claims, so it ends
// none by what it says is used. The caller holds mu.
func (s *State) replicasOver(o *owner, now time.Time) int {
	toCome := s.toCome(o, now)
	if toCome > 0 {
		toCome = min(toCome, s.allowed(o, owners.AllowedByKnown))
	}
	return max(s.claims.CountToCome(o.uid)-toCome, 0)
}

// toCome is how many replicas the owner is still to create, whatever a quota leaves. The caller
// holds mu.
func (s *State) toCome(o *owner, now time.Time) int {
	if o.object == nil || !o.created.IsZero() && now.Sub(o.created) >= creationGap {
		return 0
	}
	var others []*appsv1.ReplicaSet
	for uid, set := range s.replicas.sets[owners.DeploymentOf(o.object)] {
		if uid != o.uid {
			others = append(others, set)
		}
	}
	return max(owners.ToCome(o.object, o.count, others), 0)
}

// allowed is how many replicas of the owner to come the quotas leave room for. The caller holds mu.
func (s *State) allowed(o *owner, by func(*corev1.Pod, []*corev1.ResourceQuota, []owners.Share) int) int {
	quotas := s.replicas.quotas[o.object.GetNamespace()]
	if len(quotas) == 0 || o.template == nil {
		return math.MaxInt
	}
	shares := []owners.Share{{Pod: o.template, Exist: o.count[owners.Active]}}
	for _, uid := range s.claims.OwnersWithSlots() {
		other := s.replicas.owners[uid]
		if other == nil || other == o || other.template == nil || other.template.Namespace != o.template.Namespace {
			continue
		}
		shares = append(shares, owners.Share{Pod: other.template, Exist: other.count[owners.Active],
			ToCome: s.claims.CountToCome(uid)})
	}
	return by(o.template, slices.Collect(maps.Values(quotas)), shares)
}

// limitReplicas ends the claims for replicas of the owner that will not come, the youngest first.
// The caller holds mu.
func (s *State) limitReplicas(o *owner, now time.Time) {
	if s.claims.CountToCome(o.uid) == 0 {
		return
	}
	if over := s.replicasOver(o, now); over > 0 {
		claims := s.claims.ReplicasToCome(o.uid)
		s.endReplicas(o, claims[len(claims)-over:], true, now)
	}
}

// ExpireReplicas ends the claims for replicas of owners that have created no pod for creationGap.
func (s *State) ExpireReplicas(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	for _, uid := range slices.Sorted(slices.Values(s.claims.OwnersWithSlots())) {
		s.limitReplicas(s.owner(uid), now)
	}
}

// endReplicas ends claims for replicas to come. wanted: the owner stands, so that nodes which start
// for nothing hold further claims for its replicas back. The caller holds mu.
func (s *State) endReplicas(o *owner, claims []decide.Claim, wanted bool, now time.Time) {
	if len(claims) == 0 {
		return
	}
	s.claims.ReleaseReplicas(claims)
	ended := ReplicasEnded{Claims: len(claims), Adopted: !slices.ContainsFunc(claims, isOwn)}
	if wanted && o.object != nil {
		if ended.Nodes = s.startedForNothing(claims); len(ended.Nodes) > 0 {
			ended.Owner, ended.Until = o.object, s.claims.FailReplicas(o.uid, now)
		}
	}
	s.tellReplicasEnded(ended)
}

func isOwn(c decide.Claim) bool { return !c.Adopted }

// ReplicasEnded says that claims for replicas to come have ended.
type ReplicasEnded struct {
	Claims int
	// Adopted: another replica of Stratos has made them all.
	Adopted bool
	// Nodes are those that were started for these replicas alone. Until the given time no claims are
	// made for replicas of the owner; nil where none was started for nothing.
	Nodes []v1alpha1.NodeName
	Owner client.Object
	Until time.Time
}

// tellReplicasEnded tells the listeners. The caller holds mu.
func (s *State) tellReplicasEnded(ended ReplicasEnded) {
	for _, l := range s.listeners {
		if l.ReplicasEnded != nil {
			s.notifications.add(func() { l.ReplicasEnded(ended) })
		}
	}
}

// startedForNothing are the nodes of the ended claims that start or run, and serve no pod. The
// caller holds mu.
func (s *State) startedForNothing(claims []decide.Claim) []v1alpha1.NodeName {
	var out []v1alpha1.NodeName
	for i := range claims {
		e := s.nodes[claims[i].Node]
		if e == nil || e.node == nil || len(s.claims.On(claims[i].Node)) > 0 {
			continue
		}
		daemons := 0
		for _, n := range e.daemons {
			daemons += n
		}
		running := e.node.State == v1alpha1.StateRunning && len(e.pods) == daemons
		if running || e.node.State == v1alpha1.StateStarting {
			out = append(out, claims[i].Node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
