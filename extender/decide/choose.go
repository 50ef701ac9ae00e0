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
)

// best is the best node so far, and what would be wasted of it; no node where there was none.
type best struct {
	node *Node
	// devices is how many kinds of devices the pod would leave idle.
	devices int
	waste   float64
}

// offer takes the node if it is better: by pool weight (higher first), no change of type,
// devices that the pod does not ask for (fewer first), waste (less first) and name.
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
	if b.node.ChangesType != o.node.ChangesType {
		return o.node.ChangesType
	}
	if b.devices != o.devices {
		return b.devices < o.devices
	}
	return b.waste < o.waste || b.waste == o.waste && b.node.Name < o.node.Name
}

// waste is how much of the node would be left with the pod on it, in cpu cores plus units of 4 GiB
// of memory: the proportion in which clouds sell them, so that neither resource hides the other.
func (j *attempt) waste(n *Node) float64 {
	taken, _ := j.taken(n, reach{})
	d := j.digest(n)
	cpu := n.Allocatable.MilliCPU - taken.MilliCPU - d.Requests.MilliCPU
	memory := n.Allocatable.Memory - taken.Memory - d.Requests.Memory
	return float64(cpu)/1000 + float64(memory)/(4<<30)
}

// newClaim is the claim that the pod gets on the node.
func (j *attempt) newClaim(n *Node) *Claim {
	message := fmt.Sprintf("starting standby node %s of pool %s", n.Name, n.Pool)
	switch {
	case n.State == v1alpha1.StateRunning:
		message = fmt.Sprintf("room is claimed on running node %s of pool %s", n.Name, n.Pool)
	case n.Cancellable():
		message = fmt.Sprintf("canceling the stop of node %s of pool %s", n.Name, n.Pool)
	default:
		if n.ChangesType {
			message += " as " + n.Labels[corev1.LabelInstanceTypeStable]
		}
		if d := j.readyIn[n.Pool]; d > 0 {
			message += fmt.Sprintf(" (usually ready in %s)", d.Round(time.Second))
		}
	}
	c := &Claim{
		Pod: j.Pod.UID, Ref: PodRef{Namespace: j.Pod.Namespace, Name: j.Pod.Name, UID: j.Pod.UID},
		Node: n.Name, Pool: n.Pool, Priority: corev1helpers.PodPriority(j.Pod),
		Path: pathTo(n, j.Pod), Since: j.now, LastAsked: j.now, Message: message, digest: j.digest(n), owner: ownerOf(j.Pod),
	}
	if isSlot(j.Pod) {
		c.Slot = j.Pod.UID
	}
	return c
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
// before a restart. What is published stands, so claims of this process that are not published are
// released for it: the pod's own elsewhere, and those on the node for which it leaves no room. Of
// two published claims of one pod the one on the first node by name stands, so that both
// replicas keep the same. It does nothing where the node is not on its way to running, or where
// what stands leaves no room: an annotation may be older than a decision here that gave the room to
// another pod. A claim of another replica on a node that runs has moved: such a node names no pods.
// It returns the released claims whose pods have none now.
//
// name is what the Node names the claim by: the pod's UID, or the slot of a replica to come. The
// pod is one that has come, or stands for the replica. One that has a slot leaves it where a Node
// names the pod itself.
func (l *Claims) Adopt(pod *corev1.Pod, name types.UID, n *Node, now time.Time) (adopted bool, released []Claim) {
	if n.State != v1alpha1.StateStarting && n.State != v1alpha1.StateRunning {
		return false, nil
	}
	if now.Before(l.backingOff[n.Name]) {
		return false, nil // its start has failed, and the cluster state does not show that yet
	}
	old := l.byPod[pod.UID]
	if old != nil && old.standsAgainst(name, n.Name) {
		return false, nil
	}
	j := l.newAttempt(Ask{Pod: pod}, now)
	released, ok := j.makeRoom(n, isSlot(pod) || name != pod.UID)
	if !ok {
		return false, nil
	}
	if old != nil {
		l.drop(old)
	}
	c := j.newClaim(n)
	if name != pod.UID {
		c.Slot = name
	}
	c.Adopted, c.published, c.burst = true, true, l.currentBurst(now)
	if n.State == v1alpha1.StateRunning {
		c.RunningSince = now
	}
	l.add(c)
	return true, released
}

// standsAgainst reports whether the claim stands although the node names its pod, or slot.
func (c *Claim) standsAgainst(name types.UID, node v1alpha1.NodeName) bool {
	switch {
	case c.PublishedAs() != name:
		return name != c.Pod // a slot that another process knows taken is no reason to leave a claim
	case c.Node == node:
		return true
	case !c.RunningSince.IsZero():
		return !c.Adopted
	}
	return c.published && c.Node < node
}

// makeRoom ends claims on the node that are not published and not of higher priority, the youngest
// first, until the pod has room, and returns them. Where that does not do, none is ended. Claims
// for replicas to come make room although they are published, and where the Node names a slot, no
// claim of a pod ends for it.
func (j *attempt) makeRoom(n *Node, slot bool) (ended []Claim, ok bool) {
	if j.hasRoom(n, reach{}) {
		return nil, true
	}
	claims := j.claimsOn(n.Name)
	slices.SortFunc(claims, func(a, b Claim) int { return preemptionOrder(b, a) })
	j.displaced = map[types.UID]bool{}
	for _, c := range claims {
		if c.Priority > corev1helpers.PodPriority(j.Pod) || !c.makesWay(slot) {
			continue
		}
		j.displaced[c.Pod] = true
		ended = append(ended, c)
		if j.hasRoom(n, reach{}) {
			for k := range ended {
				j.drop(j.byPod[ended[k].Pod])
			}
			return ended, true
		}
	}
	return nil, false
}

// makesWay reports whether the claim may end for one that a Node names, by a slot or by its pod. A
// slot that is named may be one that has ended since: here, and no watch shows it yet.
func (c *Claim) makesWay(slot bool) bool {
	if c.ToCome() && !slot {
		return true
	}
	return !c.published && c.RunningSince.IsZero() && (c.ToCome() || !slot)
}

// ownerOf is what backs off after a futile start: the pod's controller, else the pod itself.
func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}
