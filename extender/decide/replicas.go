package decide

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// slotMark is between the UID of an owner and the number of a slot. No UID holds it.
const slotMark = "*"

// SlotOf names a slot of an owner: what a claim for a replica to come has for a pod, and what a
// Node names such a claim by. A pod that takes the slot leaves the name as it is, so that nothing
// is written for that.
func SlotOf(owner types.UID, number int) types.UID {
	return owner + slotMark + types.UID(strconv.Itoa(number))
}

// OwnerOfSlot returns the owner whose slot it is, and its number; false where it is that of a pod.
func OwnerOfSlot(slot types.UID) (owner types.UID, number int, ok bool) {
	of, text, found := strings.Cut(string(slot), slotMark)
	if !found {
		return "", 0, false
	}
	number, err := strconv.Atoi(text)
	return types.UID(of), number, err == nil
}

// PublishedAs is what the Node names the claim by: its slot if it has one, else its pod.
func (c *Claim) PublishedAs() types.UID { return cmp.Or(c.Slot, c.Pod) }

// ToCome reports whether the claim is for a replica that does not exist yet.
func (c *Claim) ToCome() bool { return c.Slot != "" && c.Slot == c.Pod }

// Slot returns the claim that has the slot.
func (l *Claims) Slot(slot types.UID) (Claim, bool) {
	owner, number, _ := OwnerOfSlot(slot)
	if c := l.slots[owner][number]; c != nil {
		return *c, true
	}
	return Claim{}, false
}

// OwnersWithSlots are the owners of which some claim has a slot, in no order.
func (l *Claims) OwnersWithSlots() []types.UID { return slices.Collect(maps.Keys(l.slots)) }

// ReplicasToCome returns the claims for replicas of the owner that do not exist yet, by their
// numbers.
func (l *Claims) ReplicasToCome(owner types.UID) []Claim {
	var out []Claim
	for _, number := range slices.Sorted(maps.Keys(l.slots[owner])) {
		if c := l.slots[owner][number]; c.ToCome() {
			out = append(out, *c)
		}
	}
	return out
}

// FirstToCome returns the one of ReplicasToCome with the lowest number; false where there is none.
func (l *Claims) FirstToCome(owner types.UID) (Claim, bool) {
	first := -1
	for number, c := range l.slots[owner] {
		if c.ToCome() && (first < 0 || number < first) {
			first = number
		}
	}
	if first < 0 {
		return Claim{}, false
	}
	return *l.slots[owner][first], true
}

// CountToCome is the number of ReplicasToCome.
func (l *Claims) CountToCome(owner types.UID) int {
	n := 0
	for _, c := range l.slots[owner] {
		if c.ToCome() {
			n++
		}
	}
	return n
}

// HasSlot reports whether some claim has the slot of that number.
func (l *Claims) HasSlot(owner types.UID, number int) bool { return l.slots[owner][number] != nil }

// TakeSlot gives the claim of a replica that was to come to the pod that has come.
func (l *Claims) TakeSlot(slot types.UID, pod *corev1.Pod, n *Node, now time.Time) Claim {
	was := l.byPod[slot]
	l.drop(was)
	c := l.newAttempt(Ask{Pod: pod}, now).newClaim(n)
	c.Slot, c.Adopted, c.Ahead, c.published, c.burst = slot, was.Adopted, true, was.published, l.currentBurst(now)
	if !was.RunningSince.IsZero() {
		c.RunningSince = now // the time that the pod has to be bound begins when there is a pod
	}
	l.add(c)
	return *c
}

// ReleaseReplicas ends claims of ReplicasToCome.
func (l *Claims) ReleaseReplicas(claims []Claim) {
	for i := range claims {
		if c := l.byPod[claims[i].Pod]; c != nil {
			l.drop(c)
		}
	}
}

// FailReplicas takes in that nodes were started for replicas of the owner that did not come: until
// the returned time no more claims are made for such.
func (l *Claims) FailReplicas(owner types.UID, now time.Time) (until time.Time) {
	l.futileReplicas.fail(owner, now)
	return l.futileReplicas.until(owner, now)
}

// ReplicasServed takes in that all replicas came that there were claims for.
func (l *Claims) ReplicasServed(owner types.UID) { delete(l.futileReplicas.byKey, owner) }

// ReplicasBackOff reports whether no claims are to be made for replicas of the owner to come.
func (l *Claims) ReplicasBackOff(owner types.UID, now time.Time) bool {
	return !l.futileReplicas.until(owner, now).IsZero()
}

// reach says from which claims a pod may take room; the zero reach is none.
type reach struct {
	// priority is the pod's.
	priority int32
	// replicas: from those for replicas to come of the priority or a lower one; pods: from those of
	// pods of a lower one.
	replicas, pods bool
}

// reachOf is from which claims a pod may take room before a node starts for it. A replica to come
// takes from none.
func reachOf(pod *corev1.Pod) reach {
	if isSlot(pod) {
		return reach{}
	}
	return reach{priority: corev1helpers.PodPriority(pod), replicas: true, pods: true}
}

// overReplicas is the reach of a pod, without the claims of pods.
func overReplicas(pod *corev1.Pod) reach {
	r := reachOf(pod)
	r.pods = false
	return r
}

// isSlot reports whether the pod stands for a replica to come.
func isSlot(pod *corev1.Pod) bool {
	_, _, ok := OwnerOfSlot(pod.UID)
	return ok
}

// holdsNothing reports whether the claim keeps no room on the node: it runs, and the replica does
// not exist.
func (c *Claim) holdsNothing(n *Node) bool { return c.ToCome() && n.State == v1alpha1.StateRunning }

// holdRoom reports whether some claim on the running node keeps room there.
func (l *Claims) holdRoom(n *Node) bool {
	for _, c := range l.on(n.Name) {
		if !c.holdsNothing(n) {
			return true
		}
	}
	return false
}
