package decide

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// feasible are the ordinary nodes that take the pod now.
type feasible struct {
	// nodes are those that nobody else waits for.
	nodes []v1alpha1.NodeName
	// shared is the best of those with room beside what other pods are promised there.
	shared best
	// contested is the best of those with room only where claims of lower priority give way.
	contested best
}

// nodesInService applies kube-scheduler's own rules to the nodes that those rules decide about. For
// a DaemonSet's pod they decide about every node: its pods belong on stopped nodes too.
func (j *attempt) nodesInService(own *Claim) (feasible, refusals) {
	daemon := ownedByDaemonSet(j.Pod)
	out, refused := feasible{}, refusals{}
	alone := len(j.byNode) == 0 // nobody is promised room anywhere
	// Bound where it has no partner, as the first of its group, the pod would keep its claimed
	// partners from following.
	follows := !alone && !daemon && j.World != nil && HasPodAffinity(j.Pod)
	for i, n := range j.Nodes {
		if !n.InService() && !daemon {
			continue
		}
		taints, cordoned := n.Taints, n.Unschedulable
		if daemon {
			taints, cordoned = n.CurrentTaints, n.Cordoned // its pod comes now, not when the node runs
		}
		if why := fit.UntoleratedReason(j.Pod, taints, cordoned); why != "" {
			refused.add(n.Name, reason{text: why})
			continue
		}
		if follows && !holds(j.Pod, own, n) {
			if r := j.withPendingPods(j.digest(n)).PodAffinity(&n.Node); r != nil {
				refused.add(n.Name, pendingPodReason(r))
				continue
			}
		}
		if !n.InPool() || daemon || alone || len(j.on(n.Name)) == 0 || holds(j.Pod, own, n) {
			if out.nodes == nil {
				out.nodes = make([]v1alpha1.NodeName, 0, len(j.Nodes)-i)
			}
			out.nodes = append(out.nodes, n.Name)
			continue
		}
		if why := j.sharedReason(own, n); why != (reason{}) {
			refused.add(n.Name, why)
			continue
		}
		switch {
		case MayNotStart(j.Pod) != "": // a pod that is promised nothing
			out.nodes = append(out.nodes, n.Name)
		case j.hasRoom(n, noPreemption):
			j.offer(&out.shared, n)
		default:
			j.offer(&out.contested, n)
			refused.add(n.Name, noRoom()) // the words that a pod hears that has a claim elsewhere by then
		}
	}
	return out, refused
}

// sharedReason gives the reason why a running node has no room for the pod beside what others are
// promised. A pod with a claim elsewhere stays out: its own node is coming.
func (j *attempt) sharedReason(own *Claim, n *Node) reason {
	if !j.hasRoom(n, corev1helpers.PodPriority(j.Pod)) {
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

// claimShared promises the pod room on a running node on which others wait for theirs, and passes
// that node alone. Without a promise of its own, the next pod would be judged by a view that has
// not seen this one bound yet, and both together would take promised room.
func (j *attempt) claimShared(n *Node) Decision {
	displaced := j.displace(n)
	own := j.newClaim(n)
	own.RunningSince, own.passed = j.now, true
	return Decision{Kind: PassClaimed, Nodes: []v1alpha1.NodeName{n.Name}, Claim: own, Displaced: displaced}
}

func noRoom() reason { return reason{text: "room is promised to other waiting pods"} }

func pendingPodReason(r *fit.Refusal) reason {
	return reason{text: "among the waiting pods: " + r.Message}
}

// holds reports whether the pod has room of its own on the node: its claim, or a nomination, which
// Used counts already.
func holds(pod *corev1.Pod, own *Claim, n *Node) bool {
	return own != nil && own.Node == n.Name || pod.Status.NominatedNodeName == string(n.Name)
}
