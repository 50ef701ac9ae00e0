package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// PodFit checks nodes for one pod by all rules of fit, with the cluster state of when it was made.
// It is for one goroutine.
type PodFit struct {
	pod   *corev1.Pod
	world *fit.World
	// promised is the world with the claimed pods, for a pod that wants to be with others; nil for one
	// that does not.
	promised *fit.World
	volumes  []fit.VolumeConstraint
	// pools are checked separately: a pod without requests claims each pool's own defaults.
	pools map[v1alpha1.PoolName]*poolFit
}

type poolFit struct {
	digest *fit.Pod
	view   *fit.View
	// promised is nil where the pod wants no company.
	promised *fit.View
}

// PodFit returns a check of nodes for the pod.
func (s *State) PodFit(pod *corev1.Pod) *PodFit {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &PodFit{pod: pod, world: s.snapshot(), pools: map[v1alpha1.PoolName]*poolFit{}}
	if decide.HasPodAffinity(pod) {
		j.promised = s.claims.WithClaims(j.world)
	}
	if len(pod.Spec.Volumes) > 0 {
		j.volumes = s.storage.constraintsOf(pod)
	}
	return j
}

// Refusal returns why the node does not take the pod, nil if it does. A partner with a claim on a
// node counts like one that is bound there.
func (j *PodFit) Refusal(n *decide.Node) *fit.Refusal {
	p := j.of(n)
	refusal := p.view.Fits(&n.Node)
	if refusal == nil || refusal.Reason != fit.ReasonPodAffinity || p.promised == nil {
		return refusal
	}
	if lonely := p.promised.PodAffinity(&n.Node); lonely != nil {
		return lonely
	}
	return p.view.AntiAffinity(&n.Node) // the one check that comes after
}

// Digest is the pod as it is checked on the node, its volumes resolved.
func (j *PodFit) Digest(n *decide.Node) *fit.Pod { return j.of(n).digest }

// Pod is the pod that nodes are checked for.
func (j *PodFit) Pod() *corev1.Pod { return j.pod }

func (j *PodFit) of(n *decide.Node) *poolFit {
	p := j.pools[n.Pool]
	if p == nil {
		digest := fit.NewPod(j.pod, n.Defaults)
		digest.Volumes = j.volumes
		p = &poolFit{digest: digest, view: j.world.View(digest)}
		if j.promised != nil {
			p.promised = j.promised.View(digest)
		}
		j.pools[n.Pool] = p
	}
	return p
}

// Fitting returns the nodes that the pod fits by all that fit knows, sorted by name: running ones
// as they are, others as they will be.
func (s *State) Fitting(pod *corev1.Pod) []*decide.Node {
	judge := s.PodFit(pod)
	out := slices.DeleteFunc(s.all(), func(n *decide.Node) bool { return judge.Refusal(n) != nil })
	slices.SortFunc(out, func(a, b *decide.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

func (s *State) all() []*decide.Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	nodes := make([]*decide.Node, 0, len(s.nodes))
	for _, e := range s.nodes {
		if e.node != nil {
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}
