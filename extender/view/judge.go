package view

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Judge judges nodes for one pod by all that fit knows, as the cluster was when it was made. It is
// for one goroutine.
type Judge struct {
	view  *View
	pod   *corev1.Pod
	world *fit.World
	// promised is the world with the claimed pods, for a pod that wants to be with others; nil for one
	// that does not.
	promised *fit.World
	volumes  []fit.VolumeConstraint
	// pools are judged apart: a pod without requests claims each pool's own defaults.
	pools map[v1alpha1.PoolName]*poolJudge
}

type poolJudge struct {
	digest *fit.Pod
	view   *fit.View
	// promised is nil where the pod wants no company.
	promised *fit.View
}

// Judge returns the judgement for a pod.
func (v *View) Judge(pod *corev1.Pod) *Judge {
	v.mu.Lock()
	defer v.mu.Unlock()
	j := &Judge{view: v, pod: pod, world: v.snapshot(), pools: map[v1alpha1.PoolName]*poolJudge{}}
	if claim.WantsCompany(pod) {
		j.promised = v.ledger.WithClaims(j.world)
	}
	if len(pod.Spec.Volumes) > 0 {
		j.volumes = v.storage.of(pod)
	}
	return j
}

// Refuses returns why the node does not take the pod, nil if it does. A partner that is promised
// room somewhere is as good as one that is bound there.
func (j *Judge) Refuses(n *claim.Node) *fit.Refusal {
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

// Empty is View.Empty.
func (j *Judge) Empty(node *corev1.Node, pool *v1alpha1.NodePool) *claim.Node {
	return j.view.Empty(node, pool)
}

// Digest is the pod as it is judged on the node, its volumes resolved.
func (j *Judge) Digest(n *claim.Node) *fit.Pod { return j.of(n).digest }

// Pod is the pod that is judged for.
func (j *Judge) Pod() *corev1.Pod { return j.pod }

func (j *Judge) of(n *claim.Node) *poolJudge {
	p := j.pools[n.Pool]
	if p == nil {
		digest := fit.NewPod(j.pod, n.Defaults)
		digest.Volumes = j.volumes
		p = &poolJudge{digest: digest, view: j.world.View(digest)}
		if j.promised != nil {
			p.promised = j.promised.View(digest)
		}
		j.pools[n.Pool] = p
	}
	return p
}

// Fitting returns the nodes that the pod fits by all that fit knows, sorted by name: running ones
// as they are, others as they will be.
func (v *View) Fitting(pod *corev1.Pod) []*claim.Node {
	judge := v.Judge(pod)
	out := slices.DeleteFunc(v.all(), func(n *claim.Node) bool { return judge.Refuses(n) != nil })
	slices.SortFunc(out, func(a, b *claim.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

func (v *View) all() []*claim.Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	nodes := make([]*claim.Node, 0, len(v.nodes))
	for _, e := range v.nodes {
		if e.node != nil {
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}
