package decide

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/extender/fit"
)

// Preemptable decides about /preempt: whether the node, which is as the victims leave it, may lose
// them for this pod. A pod that has a claim evicts no pod. Otherwise a node is kept only if it runs
// and the pod tolerates its taints and cordon: the in-tree dry run knows neither, because the
// profile moved those filters here. Nor does it know the claims: those that the pod cannot preempt
// keep their room. Without such claims its result is kept, because it sees the pods sooner than we
// do.
func (l *Claims) Preemptable(pod *corev1.Pod, n *Node) bool {
	if !n.InService() || fit.Schedulable(pod, n.Taints, n.Unschedulable) != nil {
		return false
	}
	return len(l.on(n.Name)) == 0 || l.newAttempt(Ask{Pod: pod}, time.Time{}).hasRoom(n, reachOf(pod))
}

// displace returns the claims to release that are within the pod's reach, the lowest first, until
// the pod has room. It skips claims whose pods are on the node already, because their release frees
// no room.
func (j *attempt) displace(n *Node) []Claim {
	var out []Claim
	claims := j.claimsOn(n.Name)
	j.displaced = map[types.UID]bool{}
	slices.SortFunc(claims, func(a, b Claim) int { return preemptionOrder(b, a) })
	for i := range claims {
		if j.hasRoom(n, reach{}) {
			break
		}
		if c := &claims[i]; c.isWithin(reachOf(j.Pod)) && !c.isOnNode(&n.Node) {
			j.displaced[c.Pod] = true
			out = append(out, claims[i])
		}
	}
	return out
}

// isWithin reports whether a pod of the given reach may take the claimed room. While the claimed
// pod is being bound it may not: the pod would be bound there all the same, and the other pod would
// claim room that does not exist.
func (c *Claim) isWithin(r reach) bool {
	if c.ToCome() {
		return r.replicas && c.Priority <= r.priority
	}
	return r.pods && c.Priority < r.priority && !c.passed
}

// preemptionOrder orders claims for their release: the highest in this order is released first.
// That of a replica to come is below those of pods of its priority.
func preemptionOrder(a, b Claim) int {
	if a.passed != b.passed {
		if a.passed {
			return -1
		}
		return 1
	}
	if a.Priority != b.Priority {
		return int(b.Priority) - int(a.Priority)
	}
	if a.ToCome() != b.ToCome() {
		if a.ToCome() {
			return 1
		}
		return -1
	}
	if !a.Since.Equal(b.Since) {
		return a.Since.Compare(b.Since)
	}
	return strings.Compare(string(a.Pod), string(b.Pod))
}
