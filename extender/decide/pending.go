package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/extender/fit"
)

// pendingPodConflict checks anti-affinity, hard spread and pod affinity against the claims of
// pending pods, which kube-scheduler cannot see.
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

func pendingPodReason(r *fit.Refusal) reason {
	return reason{text: "among the pending pods: " + r.Message}
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

// withPods is the node as it will run, with the claimed pods that do not count there yet. A replica
// to come does not count where the node runs.
func withPods(n *fit.Node, claims map[types.UID]*Claim) *fit.Node {
	full := *n
	if n.WhenRunning != nil {
		full = *n.WhenRunning
	}
	full.Pods = slices.Clone(full.Pods)
	for _, c := range claims {
		if !c.isOnNode(n) && !(c.ToCome() && n.WhenRunning == nil) {
			full.Pods = append(full.Pods, c.digest.Placed())
		}
	}
	return &full
}
