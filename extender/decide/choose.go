package decide

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// noPreemption makes room() count every claim, so that none gives way.
const noPreemption = -1 << 31

// options are the best nodes of each kind on which room could be promised.
type options struct {
	draining, starting, contested, standby best
	refused                                refusals
}

// why words the refusals of all candidates.
func (o *options) why() string {
	if len(o.refused.first) == 0 {
		return "no node of a pool fits this pod"
	}
	return o.refused.String()
}

func (j *attempt) options() *options {
	o := &options{}
	for _, n := range j.Nodes {
		if n.InService() {
			continue
		}
		starting := n.State == v1alpha1.StateStarting || n.State == v1alpha1.StateStandby && j.startRequested[n.Name]
		kind := &o.standby
		switch {
		case starting:
			kind = &o.starting
		case n.Cancellable():
			kind = &o.draining
		}
		why := j.notClaimableReason(n, starting)
		if why == noRoom() && starting && j.hasRoom(n, corev1helpers.PodPriority(j.Pod)) {
			kind, why = &o.contested, reason{}
		}
		if why != (reason{}) {
			o.refused.add(n.Name, why)
			continue
		}
		j.offer(kind, n)
	}
	return o
}

// notClaimableReason gives the reason why room on a node that does not run cannot be promised to
// the pod, none if it can.
func (j *attempt) notClaimableReason(n *Node, starting bool) reason {
	if !starting && n.State != v1alpha1.StateStandby && !n.Cancellable() {
		return reason{text: "node is ", detail: string(n.State)}
	}
	if why := fit.UntoleratedReason(j.Pod, n.Taints, n.Unschedulable); why != "" {
		return reason{pool: n.Pool, text: why}
	}
	if n.NotStartable != "" {
		return reason{text: "standby node kept back: ", detail: n.NotStartable}
	}
	if !starting && j.now.Before(n.UnavailableUntil) || j.now.Before(j.backingOff[n.Name]) {
		return reason{text: "standby node backs off after a failed start"}
	}
	if why := j.offeringReason(n); why != "" {
		return reason{text: why}
	}
	if r := j.pendingPodConflict(n); r != nil {
		return pendingPodReason(r)
	}
	if !j.hasRoom(n, noPreemption) {
		return noRoom()
	}
	if !starting && n.State == v1alpha1.StateStandby && !j.withinBudget(n) {
		return reason{pool: n.Pool, text: j.usedUp(n)}
	}
	return reason{}
}

// budgetMessage says, once for each pool, that its start budget is used up.
func (j *attempt) usedUp(n *Node) string {
	if j.budgetMessages[n.Pool] == "" {
		j.budgetMessages[n.Pool] = budgetMessage(n)
	}
	return j.budgetMessages[n.Pool]
}

func budgetMessage(n *Node) string {
	return fmt.Sprintf("start budget of %d in %s is used up", n.StartBudget, BudgetWindow)
}

func (j *attempt) withinBudget(n *Node) bool {
	left, known := j.hasBudget[n.Pool]
	if !known {
		var until time.Time
		if until, left = j.budgetLeft(n, j.now); !left {
			j.limited[n.Pool] = until
		}
		j.hasBudget[n.Pool] = left
	}
	return left
}

// pendingPodConflict judges anti-affinity, hard spread and pod affinity against the pods that wait,
// which kube-scheduler cannot see.
func (j *attempt) pendingPodConflict(n *Node) *fit.Refusal {
	d := j.digest(n)
	alone := len(d.AntiAffinity) == 0 && len(d.Spread) == 0 && len(d.Affinity) == 0 && j.antiAffinityClaims == 0
	if j.World == nil || len(j.byPod) == 0 || alone {
		return nil
	}
	together := j.withPendingPods(d)
	for _, check := range [...]func(*fit.Node) *fit.Refusal{together.AntiAffinity, together.SpreadOver,
		together.PodAffinity} {
		if r := check(&n.Node); r != nil {
			return r
		}
	}
	return nil
}

// HasPodAffinity reports whether the pod must be where certain other pods are.
func HasPodAffinity(pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil
}

func (j *attempt) withPendingPods(d *fit.Pod) *fit.View {
	if j.together == nil {
		j.together = j.WithClaims(j.World()).View(d)
	}
	return j.together
}

// WithClaims is the world as it will be: the claimed pods on their nodes, and those nodes as they
// will run.
func (l *Claims) WithClaims(world *fit.World) *fit.World {
	out := &fit.World{Nodes: slices.Clone(world.Nodes), Namespaces: world.Namespaces}
	for i, n := range out.Nodes {
		if claims := l.on(n.Name); len(claims) > 0 || l.startRequested[n.Name] {
			out.Nodes[i] = withPods(n, claims)
		}
	}
	return out
}

// withPods is the node as it will run, with the claimed pods that do not count there yet.
func withPods(n *fit.Node, claims map[types.UID]*Claim) *fit.Node {
	full := *n
	if n.WhenRunning != nil {
		full = *n.WhenRunning
	}
	full.Pods = slices.Clone(full.Pods)
	for _, c := range claims {
		if !c.isOnNode(n) {
			full.Pods = append(full.Pods, c.digest.Placed())
		}
	}
	return &full
}

// best is the best node so far, and what would be wasted of it; no node where there was none.
type best struct {
	node *Node
	// devices is how many kinds of devices the pod would leave idle.
	devices int
	waste   float64
}

// offer takes the node if it is better: by pool weight (higher first), devices that the pod does
// not ask for (fewer first), waste (less first) and name.
func (j *attempt) offer(b *best, n *Node) {
	if b.node != nil && n.Weight < b.node.Weight {
		return
	}
	is := best{node: n, waste: j.waste(n)}
	if len(n.Allocatable.Scalar) > 0 {
		is.devices = n.Allocatable.DevicesBeyond(j.digest(n).Requests)
	}
	if b.node == nil || n.Weight > b.node.Weight || is.before(b) {
		*b = is
	}
}

// before orders nodes of one weight.
func (b *best) before(o *best) bool {
	if b.devices != o.devices {
		return b.devices < o.devices
	}
	return b.waste < o.waste || b.waste == o.waste && b.node.Name < o.node.Name
}

// waste is how much of the node would be left with the pod on it, in cpu cores plus units of 4 GiB
// of memory: the proportion in which clouds sell them, so that neither resource hides the other.
func (j *attempt) waste(n *Node) float64 {
	taken, _ := j.taken(n, noPreemption)
	d := j.digest(n)
	cpu := n.Allocatable.MilliCPU - taken.MilliCPU - d.Requests.MilliCPU
	memory := n.Allocatable.Memory - taken.Memory - d.Requests.Memory
	return float64(cpu)/1000 + float64(memory)/(4<<30)
}

// displace gives the claims of lower priority that give way, the least first, until the pod has
// room. It leaves those alone whose room would not become free by it.
func (j *attempt) displace(n *Node) []Claim {
	var out []Claim
	claims := j.claimsOn(n.Name)
	j.displaced = map[types.UID]bool{}
	slices.SortFunc(claims, func(a, b Claim) int { return preemptionOrder(b, a) })
	for i := range claims {
		if j.hasRoom(n, noPreemption) {
			break
		}
		if c := &claims[i]; c.preemptibleBy(corev1helpers.PodPriority(j.Pod)) && !c.isOnNode(&n.Node) {
			j.displaced[c.Pod] = true
			out = append(out, claims[i])
		}
	}
	return out
}

// newClaim is the claim that the pod gets on the node.
func (j *attempt) newClaim(n *Node) *Claim {
	message := fmt.Sprintf("starting standby node %s of pool %s", n.Name, n.Pool)
	if n.State == v1alpha1.StateRunning {
		message = fmt.Sprintf("room is promised on running node %s of pool %s", n.Name, n.Pool)
	} else if n.Cancellable() {
		message = fmt.Sprintf("taking back node %s of pool %s, which was about to stop", n.Name, n.Pool)
	} else if d := j.readyIn[n.Pool]; d > 0 {
		message += fmt.Sprintf(" (usually ready in %s)", d.Round(time.Second))
	}
	return &Claim{
		Pod: j.Pod.UID, Ref: PodRef{Namespace: j.Pod.Namespace, Name: j.Pod.Name, UID: j.Pod.UID},
		Node: n.Name, Pool: n.Pool, Priority: corev1helpers.PodPriority(j.Pod),
		Path: pathTo(n, j.Pod), Since: j.now, LastAsked: j.now, Message: message, digest: j.digest(n), owner: ownerOf(j.Pod),
	}
}

// pathTo is how the pod comes to a node on which it has a claim. A node that registered after the
// pod was created is cold: where an instance powers itself off when it is warm, the pod waits for
// its launch, its warm-up and its start. Both times are the API server's.
func pathTo(n *Node, pod *corev1.Pod) Path {
	switch {
	case n.Cancellable():
		return PathReclaimed
	case n.Created.After(pod.CreationTimestamp.Time):
		return PathCold
	}
	return PathStandby
}

// Adopt takes over a claim that is published on a node, made by another replica or by this one
// before a restart. It reports false where the pod has a claim already, where the node is not on
// its way to running, and where it has no room: an annotation may be older than a decision here
// that gave the room to another pod. A claim on a node that runs was taken over earlier, because
// such a node names no pods: it has moved.
func (l *Claims) Adopt(pod *corev1.Pod, n *Node, now time.Time) bool {
	if n.State != v1alpha1.StateStarting && n.State != v1alpha1.StateRunning {
		return false
	}
	if now.Before(l.backingOff[n.Name]) {
		return false // its start has failed, and the cluster state does not show that yet
	}
	old := l.byPod[pod.UID]
	if old != nil && (!old.Adopted || old.RunningSince.IsZero() || old.Node == n.Name) {
		return false
	}
	j := l.newAttempt(Ask{Pod: pod}, now)
	if !j.hasRoom(n, noPreemption) {
		return false
	}
	if old != nil {
		l.drop(old)
	}
	c := j.newClaim(n)
	c.Adopted, c.published, c.burst = true, true, l.currentBurst(now)
	if n.State == v1alpha1.StateRunning {
		c.RunningSince = now
	}
	l.add(c)
	return true
}

// ownerOf is whom a futile start is held against: the pod's controller, else the pod itself.
func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}
