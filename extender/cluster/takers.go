package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// TakersPending reports whether pods are pending that may take the node's room from the pods with
// claims on it, so that these need one more node. Pods of the schedulers do not count. Nor does a
// pod with a claim elsewhere that is like all those on the node: who takes whose room makes no
// difference then. Labels are not compared: where they tell pods of one shape apart, that can cost
// a node.
func (s *State) TakersPending(node v1alpha1.NodeName, schedulers []string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.nodeOf(node)
	if n == nil {
		return false
	}
	shapes := map[fit.Shape]bool{}
	for _, c := range s.claims.On(node) {
		if p := s.pending[c.Pod]; p != nil && !slices.Contains(schedulers, p.Spec.SchedulerName) {
			shapes[s.siblings.shapes[c.Pod]] = true
		}
	}
	alike := len(shapes) == 1 && !shapes[fit.Shape{}]
	for uid, p := range s.pending {
		claim, claimed := s.claims.Of(uid)
		switch {
		case claim.Node == node || slices.Contains(schedulers, p.Spec.SchedulerName):
		case alike && claimed && shapes[s.siblings.shapes[uid]]:
		case mayTake(p, n):
			return true
		}
	}
	return false
}

// mayTake reports whether the pod fits the node once that is open, but for the claims on it. What
// costs least is checked first: there may be many pods that no node can help.
func mayTake(pod *corev1.Pod, n *decide.Node) bool {
	return len(pod.Spec.SchedulingGates) == 0 && fit.Schedulable(pod, n.Taints, false) == nil &&
		fit.Selects(pod, string(n.Name), n.Labels) == nil &&
		fit.CheckResources(fit.NewPod(pod, n.Defaults), &n.Node) == nil
}
