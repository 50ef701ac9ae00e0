package cluster

import (
	"cmp"
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

// replicas are the controllers of pods, by UID, and what limits them.
type replicas struct {
	owners map[types.UID]*owner
	// sets are the ReplicaSets of each Deployment.
	sets   map[types.UID]map[types.UID]*appsv1.ReplicaSet
	quotas map[string]map[string]*corev1.ResourceQuota
}

func newReplicas() replicas {
	return replicas{
		owners: map[types.UID]*owner{}, sets: map[types.UID]map[types.UID]*appsv1.ReplicaSet{},
		quotas: map[string]map[string]*corev1.ResourceQuota{},
	}
}

// owner is a ReplicaSet, a StatefulSet or a Job.
type owner struct {
	uid types.UID
	// object is nil until its own watch shows it: pods may come first.
	object client.Object
	// pods are its pods and what each counts for, count what that sums up to.
	pods  map[types.UID]owners.Phase
	count owners.Pods
	// created is when a pod of it was last seen that had not been seen before; zero for none.
	created time.Time
	// template is what its replicas to come are taken to be like, and shape the shape of that. They
	// are read where such claims stand.
	template *corev1.Pod
	shape    fit.Shape
	// named are the slots that Nodes name.
	named map[types.UID]v1alpha1.NodeName
}

// owner returns what is known of an owner. The caller holds mu.
func (s *State) owner(uid types.UID) *owner {
	o := s.replicas.owners[uid]
	if o == nil {
		o = &owner{uid: uid, pods: map[types.UID]owners.Phase{}, named: map[types.UID]v1alpha1.NodeName{}}
		s.replicas.owners[uid] = o
	}
	return o
}

// forgetOwnerIfBare drops an owner of which nothing is known any more. The caller holds mu.
func (s *State) forgetOwnerIfBare(o *owner) {
	if o.object == nil && len(o.pods) == 0 && len(o.named) == 0 {
		delete(s.replicas.owners, o.uid)
	}
}

// SetOwner takes in an added or changed ReplicaSet, StatefulSet or Job.
func (s *State) SetOwner(object client.Object) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	o := s.owner(object.GetUID())
	o.object = object
	if deployment := owners.DeploymentOf(object); deployment != "" {
		if s.replicas.sets[deployment] == nil {
			s.replicas.sets[deployment] = map[types.UID]*appsv1.ReplicaSet{}
		}
		if set, ok := object.(*appsv1.ReplicaSet); ok {
			s.replicas.sets[deployment][o.uid] = set
		}
	}
	s.adoptSlots(o, now)
	s.limitReplicasNextTo(o, now)
}

// DeleteOwner takes in that a ReplicaSet, StatefulSet or Job is gone.
func (s *State) DeleteOwner(object client.Object) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	o := s.owner(object.GetUID())
	if deployment := owners.DeploymentOf(object); deployment != "" {
		delete(s.replicas.sets[deployment], o.uid)
		if len(s.replicas.sets[deployment]) == 0 {
			delete(s.replicas.sets, deployment)
		}
	}
	o.object = nil
	s.endReplicas(o, s.claims.ReplicasToCome(o.uid), false, now)
	s.limitReplicasNextTo(o, now)
	s.forgetOwnerIfBare(o)
}

// limitReplicasNextTo ends the claims that an owner does not want any more, or another ReplicaSet
// of its Deployment. The caller holds mu.
func (s *State) limitReplicasNextTo(o *owner, now time.Time) {
	s.limitReplicas(o, now)
	if o.object == nil {
		return
	}
	for uid := range s.replicas.sets[owners.DeploymentOf(o.object)] {
		if uid != o.uid {
			s.limitReplicas(s.owner(uid), now)
		}
	}
}

// SetQuota takes in an added or changed ResourceQuota.
func (s *State) SetQuota(q *corev1.ResourceQuota) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if s.replicas.quotas[q.Namespace] == nil {
		s.replicas.quotas[q.Namespace] = map[string]*corev1.ResourceQuota{}
	}
	s.replicas.quotas[q.Namespace][q.Name] = q
	for _, uid := range slices.Sorted(slices.Values(s.claims.OwnersWithSlots())) {
		if o := s.replicas.owners[uid]; o != nil && o.template != nil && o.template.Namespace == q.Namespace {
			s.limitReplicas(o, now)
		}
	}
}

// DeleteQuota takes in that a ResourceQuota is gone.
func (s *State) DeleteQuota(q *corev1.ResourceQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replicas.quotas[q.Namespace], q.Name)
	if len(s.replicas.quotas[q.Namespace]) == 0 {
		delete(s.replicas.quotas, q.Namespace)
	}
}

// ownPod takes in a pod of an owner: it counts, and if it waits without a claim it takes one of its
// owner's. The caller holds mu, and has taken the pod in.
func (s *State) ownPod(p *corev1.Pod, shape fit.Shape, now time.Time) {
	ref := owners.Of(p)
	if ref == nil {
		return
	}
	o, phase := s.owner(ref.UID), owners.PhaseOf(p)
	was, known := o.pods[p.UID]
	if known {
		o.count[was]--
	} else {
		o.created = now
	}
	o.pods[p.UID] = phase
	o.count[phase]++
	if !known && s.pending[p.UID] != nil && shape != o.shape && s.claims.CountToCome(o.uid) > 0 {
		s.endReplicas(o, s.claims.ReplicasToCome(o.uid), false, now)
	}
	s.takeSlot(o, p, shape, now)
	if !known || was != phase {
		s.limitReplicas(o, now)
	}
}

// disownPod takes in that a pod is gone. The caller holds mu.
func (s *State) disownPod(p *corev1.Pod, now time.Time) {
	ref := owners.Of(p)
	if ref == nil {
		return
	}
	o := s.owner(ref.UID)
	if was, known := o.pods[p.UID]; known {
		o.count[was]--
		delete(o.pods, p.UID)
		s.limitReplicas(o, now)
	}
	s.forgetOwnerIfBare(o)
}

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

// waiting are the pods of the owner that have a shape and wait, in no order. The caller holds mu.
func (s *State) waiting(o *owner) []sibling {
	var found []sibling
	for uid, phase := range o.pods {
		if shape, known := s.siblings.shapes[uid]; known && phase == owners.Active {
			found = append(found, sibling{s.pending[uid], s.siblings.byShape[shape][uid]})
		}
	}
	return found
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
// stand; below 0 where too many stand. The caller holds mu.
func (s *State) replicasLeft(o *owner, now time.Time) int {
	standing := s.claims.CountToCome(o.uid)
	if o.object == nil || !o.created.IsZero() && now.Sub(o.created) >= creationGap {
		return -standing
	}
	var others []*appsv1.ReplicaSet
	for uid, set := range s.replicas.sets[owners.DeploymentOf(o.object)] {
		if uid != o.uid {
			others = append(others, set)
		}
	}
	return min(max(owners.ToCome(o.object, o.count, others), 0), s.allowed(o)) - standing
}

// allowed is how many replicas of the owner to come the quotas leave room for. The caller holds mu.
func (s *State) allowed(o *owner) int {
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
	return owners.Allowed(o.template, slices.Collect(maps.Values(quotas)), shares)
}

// limitReplicas ends the claims for replicas of the owner that will not come, the youngest first.
// The caller holds mu.
func (s *State) limitReplicas(o *owner, now time.Time) {
	if s.claims.CountToCome(o.uid) == 0 {
		return
	}
	if left := s.replicasLeft(o, now); left < 0 {
		claims := s.claims.ReplicasToCome(o.uid)
		s.endReplicas(o, claims[len(claims)+left:], true, now)
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
