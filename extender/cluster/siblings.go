package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// placementsAtOnce bounds the placements under one hold of the lock, and candidatesAtOnce the
// candidates that they look at, about 0.3 µs each: a question that comes meanwhile waits for both.
const (
	placementsAtOnce = 16
	candidatesAtOnce = 8192
)

// siblings are the pending pods by their shape, each with its number in the order of arrival.
// Among pods of one priority that is the scheduler's order, but that a list is sorted by name.
type siblings struct {
	byShape map[fit.Shape]map[types.UID]int
	shapes  map[types.UID]fit.Shape
	// arrived counts the pods that have arrived.
	arrived int
	// fresh are the shapes of which pods have arrived since the listeners were last told.
	fresh map[fit.Shape]bool
}

// sibling is a pending pod and its number.
type sibling struct {
	pod     *corev1.Pod
	arrived int
}

func newSiblings() siblings {
	return siblings{byShape: map[fit.Shape]map[types.UID]int{}, shapes: map[types.UID]fit.Shape{},
		fresh: map[fit.Shape]bool{}}
}

// set takes in a pending pod, the shape of which may have changed: a gate is gone.
func (s *siblings) set(uid types.UID, shape fit.Shape) {
	if shape == s.shapes[uid] {
		return
	}
	s.remove(uid)
	if shape == (fit.Shape{}) {
		return
	}
	if s.byShape[shape] == nil {
		s.byShape[shape] = map[types.UID]int{}
	}
	s.arrived++
	s.fresh[shape] = true
	s.byShape[shape][uid], s.shapes[uid] = s.arrived, shape
}

// remove takes in that a pod is not pending any more.
func (s *siblings) remove(uid types.UID) {
	shape, known := s.shapes[uid]
	if !known {
		return
	}
	delete(s.shapes, uid)
	delete(s.byShape[shape], uid)
	if len(s.byShape[shape]) == 0 {
		delete(s.byShape, shape)
		delete(s.fresh, shape)
	}
}

// compare orders pods of one priority as their scheduler does.
func (a sibling) compare(b sibling) int {
	return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.arrived, b.arrived))
}

// Siblings are pending pods of the same shape as one that was refused on all candidates and got a
// claim: at that snapshot they would be refused too. After them come the replicas that the owner of
// that pod is still to create. They are for one goroutine.
type Siblings struct {
	// Asked: a scheduler asked about the pod, so that it will ask about these as well.
	Asked bool

	of    types.UID
	shape fit.Shape
	// nodes are the candidates of that pod.
	nodes []*decide.Node
	// waiting are the pods that are left, in the order of their scheduler. They are looked for at
	// first, and found says that they were.
	waiting []types.UID
	found   bool

	// owner is the pod's, "" where it has none that may create more.
	owner types.UID
	// slot is the number of the next replica to come, toCome how many there are in this portion.
	slot, toCome int
	// claimed is how many replicas to come have got claims, and starts how many nodes start for them.
	claimed, starts int
}

// refusesSiblings reports whether other pods of the shape would be refused too, and some of them
// may have no claim: the pod has just got one, or it has one and is refused again, and others of
// its shape have arrived since. In a burst the scheduler asks about the oldest pods again and
// again, because each write to a Node has it try them, and it may not come to the newest for
// seconds.
func (s *State) refusesSiblings(pod *corev1.Pod, d *decide.Decision) bool {
	return d.Kind.IsNewClaim() || d.Kind == decide.Waiting && s.siblings.fresh[s.siblings.shapes[pod.UID]]
}

// tellSiblings tells the listeners of the pods that are like the one that was just refused and has
// a claim. The caller holds mu; the nodes are not kept.
func (s *State) tellSiblings(pod *corev1.Pod, nodes []*decide.Node, asked bool) {
	shape, known := s.siblings.shapes[pod.UID]
	if !known {
		return
	}
	delete(s.siblings.fresh, shape)
	owner := types.UID("")
	if slices.ContainsFunc(nodes, anticipatesReplicas) { // else nothing is computed for it
		owner = s.ownerWithReplicas(pod)
	}
	if owner == "" && len(s.siblings.byShape[shape]) < 2 {
		return
	}
	for _, l := range s.listeners {
		if l.SiblingsWait != nil {
			found := &Siblings{Asked: asked, of: pod.UID, shape: shape, nodes: inPools(nodes), owner: owner}
			s.notifications.add(func() { l.SiblingsWait(found) })
		}
	}
}

func anticipatesReplicas(n *decide.Node) bool { return n.Anticipate == v1alpha1.AnticipateReplicas }

// inPools are the nodes of pools. On the others the pod was refused, and so is each that is like
// it.
func inPools(nodes []*decide.Node) []*decide.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *decide.Node) bool { return !n.InPool() })
}

// Placed is a pod that has got a claim, or one that stands for a replica to come.
type Placed struct {
	Pod      *corev1.Pod
	Decision decide.Decision
}

// PlaceSiblings claims room for the next of the pods, as if their scheduler had asked about each in
// turn with the same candidates, and then for replicas to come. It reports whether some may be
// left: one call makes a bounded number of placements.
func (s *State) PlaceSiblings(siblings *Siblings, now time.Time) (placed []Placed, more bool) {
	s.mu.Lock()
	defer s.unlock()
	if !siblings.found {
		siblings.waiting, siblings.found = s.waitingLike(siblings, now), true
	}
	siblings.toCome = s.replicasToClaim(siblings, now)
	nodes := s.present(siblings.nodes)
	most := min(placementsAtOnce, max(1, candidatesAtOnce/max(1, len(nodes))))
	var last *decide.Node
	placements := 0
	for pod := s.nextSibling(siblings, now); pod != nil; pod = s.nextSibling(siblings, now) {
		ask := decide.Ask{Pod: pod, Nodes: nodes, World: s.snapshot}
		if last != nil {
			if d, ok := s.claims.ClaimBeside(ask, last, now); ok {
				placed = append(placed, siblings.place(pod, d))
				continue
			}
		}
		if placements == most {
			return placed, true
		}
		placements++
		d, ok := s.claims.DecideAhead(ask, now)
		if !ok {
			break
		}
		s.claimsEnded(d.Displaced, now)
		placed, last = append(placed, siblings.place(pod, d)), s.nodeOf(d.Claim.Node)
	}
	s.tellReplicasClaimed(siblings)
	return placed, false
}

// nextSibling is the next pod that may get a claim, or one that stands for the next replica to
// come; nil where there is none. The caller holds mu.
func (s *State) nextSibling(siblings *Siblings, now time.Time) *corev1.Pod {
	for ; len(siblings.waiting) > 0; siblings.waiting = siblings.waiting[1:] {
		pod := s.pending[siblings.waiting[0]]
		if pod != nil && s.siblings.shapes[pod.UID] == siblings.shape && !s.isDone(pod) &&
			s.claims.MayClaimAhead(pod, now) {
			return pod
		}
	}
	return s.nextReplica(siblings)
}

// place takes in that the next one has got its claim.
func (s *Siblings) place(pod *corev1.Pod, d decide.Decision) Placed {
	if !d.Claim.ToCome() {
		s.waiting = s.waiting[1:]
		return Placed{pod, d}
	}
	s.toCome--
	s.claimed++
	if d.Kind == decide.Started {
		s.starts++
	}
	return Placed{pod, d}
}

// present are the nodes as they are now, without those that are gone. The caller holds mu.
func (s *State) present(nodes []*decide.Node) []*decide.Node {
	out := make([]*decide.Node, 0, len(nodes))
	for _, n := range nodes {
		if is := s.nodeOf(n.Name); is != nil {
			out = append(out, is)
		}
	}
	return out
}

// waitingLike are the pending pods of the shape that may get a claim and that no selector tells
// from the pod that has one, the oldest first. The caller holds mu.
func (s *State) waitingLike(siblings *Siblings, now time.Time) []types.UID {
	pod := s.pending[siblings.of]
	if pod == nil {
		return nil
	}
	var found []sibling
	for uid, arrived := range s.siblings.byShape[siblings.shape] {
		if p := s.pending[uid]; p != nil && s.claims.MayClaimAhead(p, now) {
			found = append(found, sibling{p, arrived})
		}
	}
	slices.SortFunc(found, sibling.compare)
	read := s.labelsRead(pod, found)
	out := make([]types.UID, 0, len(found))
	for _, is := range found {
		if read.SameLabels(pod, is.pod) {
			out = append(out, is.pod.UID)
		}
	}
	return out
}

// labelsRead are the keys of the labels that tell the pods from each other: by the pod's own terms
// and constraints, or by the required anti-affinity of others. The caller holds mu.
func (s *State) labelsRead(pod *corev1.Pod, others []sibling) fit.LabelKeys {
	read := fit.ReadBy(pod)
	if !slices.ContainsFunc(others, func(o sibling) bool { return !maps.Equal(o.pod.Labels, pod.Labels) }) {
		return read
	}
	for _, e := range s.nodes {
		for _, p := range e.placed {
			read.AddTerms(p.AntiAffinity)
		}
	}
	s.claims.AddKeysOfClaims(read)
	return read
}
