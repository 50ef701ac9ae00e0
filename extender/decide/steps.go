package decide

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Decide checks the pod against the candidates and, where no node can take it now, claims room on
// one that will. It changes nothing: the claims assume the decision. The numbers are those of the
// steps of docs/filter.md; their functions follow below in that order.
func Decide(l *Claims, ask Ask, now time.Time) Decision {
	j := l.newAttempt(ask, now)
	own := l.byPod[ask.Pod.UID]
	open, refused := j.nodesInService(own) // steps 1 and 2
	// Step 3.
	if own != nil && slices.Contains(open.nodes, own.Node) {
		claim := *own
		claim.passed = true
		return Decision{Kind: PassClaimed, Nodes: []v1alpha1.NodeName{own.Node}, Claim: &claim}
	}
	if len(open.nodes) > 0 {
		return Decision{Kind: Pass, Nodes: open.nodes, Refused: refused.byNode()}
	}
	if open.shared.node != nil {
		return j.claimShared(open.shared.node)
	}
	if own != nil { // step 4.1
		return waiting(Waiting, own, ask, &refused)
	}
	if why := mayNotStart(ask); why != "" {
		return Decision{Kind: NotOurs, Refused: refused.withPodReason(ask, why)}
	}
	if why, _ := l.OwnerBackoff(ask.Pod, now); why != "" && open.contested.node == nil {
		return Decision{Kind: Unavailable, Refused: refused.withPodReason(ask, why)}
	}
	return j.claimRoom(open.contested.node, &refused)
}

// feasible are the nodes in service that take the pod now.
type feasible struct {
	// nodes are those without claims of other pods.
	nodes []v1alpha1.NodeName
	// shared is the best of those with room in addition to the claims of other pods there.
	shared best
	// contested is the best of those with room only if claims of lower priority are released.
	contested best
}

// nodesInService applies kube-scheduler's own rules to the nodes that those rules decide about. For
// a DaemonSet's pod they decide about every node: its pods belong on stopped nodes too.
func (j *attempt) nodesInService(own *Claim) (feasible, refusals) {
	daemon := ownedByDaemonSet(j.Pod)
	out, refused := feasible{}, refusals{}
	alone := len(j.byNode) == 0 // no pod has a claim
	// Bound where it has no partner, as the first of its group, the pod would keep its claimed
	// partners from following.
	follows := !alone && !daemon && j.World != nil && HasPodAffinity(j.Pod)
	for i, n := range j.Nodes {
		if !n.InService() && !daemon {
			continue
		}
		if why := untoleratedReason(j.Pod, n, daemon); why != "" {
			refused.add(n.Name, reason{text: why})
			continue
		}
		if follows && !holds(j.Pod, own, n) {
			if r := j.withPendingPods(j.digest(n)).PodAffinity(&n.Node); r != nil {
				refused.add(n.Name, pendingPodReason(r))
				continue
			}
		}
		if daemon || alone || j.isFreeOfOtherClaims(own, n) {
			if out.nodes == nil {
				out.nodes = make([]v1alpha1.NodeName, 0, len(j.Nodes)-i)
			}
			out.nodes = append(out.nodes, n.Name)
			continue
		}
		j.offerShared(own, n, &out, &refused)
	}
	return out, refused
}

// untoleratedReason gives the reason why the pod does not tolerate a node, "" if it does. A
// DaemonSet's pod comes now, not when the node runs.
func untoleratedReason(pod *corev1.Pod, n *Node, daemon bool) string {
	if daemon {
		return fit.UntoleratedReason(pod, n.CurrentTaints, n.Cordoned)
	}
	return fit.UntoleratedReason(pod, n.Taints, n.Unschedulable)
}

// isFreeOfOtherClaims reports whether no claim of another pod limits what the pod finds on a
// running node.
func (j *attempt) isFreeOfOtherClaims(own *Claim, n *Node) bool {
	return !n.InPool() || holds(j.Pod, own, n) || !j.holdRoom(n)
}

// offerShared takes a running node on which other pods have claims into account: the pod may use
// what room they leave.
func (j *attempt) offerShared(own *Claim, n *Node, out *feasible, refused *refusals) {
	if why := j.sharedReason(own, n); why != (reason{}) {
		refused.add(n.Name, why)
		return
	}
	switch {
	case MayNotStart(j.Pod) != "": // a pod that gets no claim
		out.nodes = append(out.nodes, n.Name)
	case j.hasRoom(n, reach{}):
		j.offer(&out.shared, n)
	default:
		j.offer(&out.contested, n)
		refused.add(n.Name, noRoom()) // the words that a pod hears that has a claim elsewhere by then
	}
}

// holds reports whether the pod has room of its own on the node: its claim, or a nomination by
// others, which Used counts already.
func holds(pod *corev1.Pod, own *Claim, n *Node) bool {
	return own != nil && own.Node == n.Name || NominatedNode(pod) == n.Name
}

// sharedReason gives the reason why a running node has no room for the pod in addition to the
// claims of others. A pod with a claim elsewhere is not placed there: its own node is coming.
func (j *attempt) sharedReason(own *Claim, n *Node) reason {
	if !j.hasRoom(n, reachOf(j.Pod)) {
		return noRoom()
	}
	if r := j.pendingPodConflict(n); r != nil {
		return pendingPodReason(r)
	}
	if own != nil {
		return noRoom()
	}
	return reason{}
}

func noRoom() reason { return reason{text: "room is claimed by other pending pods"} }

// claimShared claims room for the pod on a running node on which other pods have claims, and passes
// that node alone. Without a claim, the next pod would be checked against a snapshot in which this
// one is not bound yet, and both together would take claimed room.
func (j *attempt) claimShared(n *Node) Decision {
	displaced := j.displace(n)
	own := j.newClaim(n)
	own.RunningSince, own.passed = j.now, true
	return Decision{Kind: PassClaimed, Nodes: []v1alpha1.NodeName{n.Name}, Claim: own, Displaced: displaced}
}

// waiting refuses every node for a pod whose claim stands. Its message hangs on the claimed node
// where that is a candidate, else on the first one.
func waiting(v Kind, own *Claim, ask Ask, refused *refusals) Decision {
	claim := *own
	d := Decision{Kind: v, Claim: &claim, Refused: refused.byNode()}
	at := v1alpha1.NodeName("")
	for _, n := range ask.Nodes {
		if n.Name == own.Node {
			at = n.Name
			break
		}
		if at == "" || n.Name < at {
			at = n.Name
		}
	}
	if at != "" { // the view knows none of the candidates: no node to hang a message on
		d.Refused[at] = own.Message
	}
	return d
}

// mayNotStart gives the reason why no node may be started in answer to this ask, "" if one may.
func mayNotStart(ask Ask) string {
	if why := MayNotStart(ask.Pod); why != "" {
		return why
	}
	if len(ask.Nodes) == 1 && NominatedNode(ask.Pod) == ask.Nodes[0].Name {
		// The scheduler looks at the nominated node alone before it looks at all: another node may still
		// take the pod.
		return "only the nominated node was asked about"
	}
	return ""
}

// MayNotStart gives the reason why no node may ever be started for this pod, "" if one may.
func MayNotStart(pod *corev1.Pod) string {
	switch {
	case ownedByDaemonSet(pod):
		return "pods of a DaemonSet start no node"
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "a static pod starts no node"
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case pod.Annotations[v1alpha1.AnnotationIgnore] == "true":
		return "the pod is annotated " + v1alpha1.AnnotationIgnore
	case pod.Spec.SchedulingGroup != nil:
		// Pod groups are tried out in simulations; a start in answer to one could be for nothing.
		return "pods of a scheduling group start no node"
	}
	return ""
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// claimRoom goes through the rest of step 4. running is the best running node if claims of lower
// priority are released, nil for none.
func (j *attempt) claimRoom(running *Node, refused *refusals) Decision {
	options := j.options()
	switch {
	case options.draining.node != nil: // step 4.2
		own := j.newClaim(options.draining.node)
		// It is not returned yet: a bind that overtakes the cancellation could land under a stop intent,
		// and the instance would be stopped with the pod on it. Whether cancellation or intent came first
		// is for the API server to say.
		return waiting(Reclaimed, own, j.Ask, refused)
	case options.starting.node != nil: // step 4.3
		return waiting(Joined, j.newClaim(options.starting.node), j.Ask, refused)
	case running != nil: // step 4.4
		return j.claimShared(running)
	case options.foreseen.node != nil: // step 4.5
		return j.claimContested(options.foreseen.node, refused)
	case options.contested.node != nil: // step 4.6
		return j.claimContested(options.contested.node, refused)
	case options.standby.node != nil: // step 4.7
		return waiting(Started, j.newClaim(options.standby.node), j.Ask, refused)
	}
	// Step 4.8.
	return Decision{Kind: Unavailable, Refused: refused.withPodReason(j.Ask, options.why()), Limited: j.limited}
}

// claimContested claims room for the pod on a starting node where other claims are to be released.
func (j *attempt) claimContested(n *Node, refused *refusals) Decision {
	displaced := j.displace(n)
	d := waiting(Joined, j.newClaim(n), j.Ask, refused)
	d.Displaced = displaced
	return d
}

// options are the best nodes of each kind on which room could be claimed.
type options struct {
	draining, starting, standby best
	// foreseen has room if claims for replicas to come are released, contested if others of lower
	// priority are too.
	foreseen, contested best
	refused             refusals
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
		if why == noRoom() && starting {
			switch {
			case j.hasRoom(n, overReplicas(j.Pod)):
				kind, why = &o.foreseen, reason{}
			case j.hasRoom(n, reachOf(j.Pod)):
				kind, why = &o.contested, reason{}
			}
		}
		if why != (reason{}) {
			o.refused.add(n.Name, why)
			continue
		}
		j.offer(kind, n)
	}
	return o
}

// notClaimableReason gives the reason why the pod cannot claim room on a node that does not run,
// none if it can.
func (j *attempt) notClaimableReason(n *Node, starting bool) reason {
	if !starting && n.State != v1alpha1.StateStandby && !n.Cancellable() {
		return reason{text: "node is ", detail: string(n.State)}
	}
	if why := fit.UntoleratedReason(j.Pod, n.Taints, n.Unschedulable); why != "" {
		return reason{pool: n.Pool, text: why}
	}
	if n.NotStartable != "" {
		return reason{text: "standby node not startable: ", detail: n.NotStartable}
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
	if !j.hasRoom(n, reach{}) {
		return noRoom()
	}
	if !starting && n.State == v1alpha1.StateStandby && !j.withinBudget(n) {
		return reason{pool: n.Pool, text: j.usedUp(n)}
	}
	return reason{}
}
