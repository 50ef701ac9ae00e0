package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// SetPod takes in an added or changed pod: one that is bound, or nominated and so on its way,
// occupies its node until it is finished.
func (v *State) SetPod(p *corev1.Pod) {
	on := v1alpha1.NodeName(p.Spec.NodeName)
	if on == "" {
		on = v1alpha1.NodeName(p.Status.NominatedNodeName)
	}
	if fit.Finished(p) {
		on = ""
	}
	if v.isUnchangedBoundPod(p, on) {
		return
	}
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	v.place(p, on)
	adoptOn := v.trackPending(p, now)
	if noLongerPending(p) {
		v.release(p, now)
	} else {
		v.claims.SetNominated(p.UID, on)
	}
	if p.Spec.NodeName != "" {
		v.releaseOverflow(v.nodeOf(v1alpha1.NodeName(p.Spec.NodeName)), now)
	}
	v.adopt(p, adoptOn, now)
}

// isUnchangedBoundPod reports whether the pod is bound, and counts on its node as before. It takes
// no lock that a decision holds.
func (v *State) isUnchangedBoundPod(p *corev1.Pod, on v1alpha1.NodeName) bool {
	was, _ := v.boundPods.Load(p.UID)
	s, ok := was.(boundPod)
	return ok && p.Spec.NodeName != "" && s.on == on && s.unchanged(p)
}

// boundPod is a bound pod as it counts on its node.
type boundPod struct {
	on v1alpha1.NodeName
	occupant
}

// releaseOverflow ends the claims for which the node has no room any more; nil is a node that is
// not known. The caller holds mu.
func (v *State) releaseOverflow(n *decide.Node, now time.Time) {
	if n != nil {
		v.claimsEnded(v.claims.ReleaseOverflow(n, now), now)
	}
}

// adopt takes over the claim of a pod that waits, if a node names it. The caller holds mu.
func (v *State) adopt(p *corev1.Pod, name v1alpha1.NodeName, now time.Time) {
	if n := v.nodeOf(name); n != nil {
		v.claims.Adopt(p, n, now)
	}
}

// noLongerPending reports whether the pod waits no more.
func noLongerPending(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" || p.DeletionTimestamp != nil || fit.Finished(p)
}

// trackPending remembers a pod that waits, and returns the node that says it is promised to the
// pod, if one does.
func (v *State) trackPending(p *corev1.Pod, now time.Time) v1alpha1.NodeName {
	if noLongerPending(p) {
		v.dropPending(p, now)
		return ""
	}
	_, known := v.pending[p.UID]
	v.pending[p.UID] = p
	if known {
		return ""
	}
	return v.published[p.UID]
}

// dropPending takes in that the pod waits no more. The caller holds mu, and has placed the pod.
func (v *State) dropPending(p *corev1.Pod, now time.Time) {
	delete(v.pending, p.UID)
	if _, counts := v.podNode[p.UID]; !counts {
		v.gone[p.UID] = now
	}
}

func (v *State) nodeOf(name v1alpha1.NodeName) *decide.Node {
	if e := v.nodes[name]; e != nil {
		return e.node
	}
	return nil
}

// DeletePod takes in that a pod is gone.
func (v *State) DeletePod(p *corev1.Pod) {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	v.place(p, "")
	v.dropPending(p, now)
	v.release(p, now)
}

// release ends the claim of a pod that waits no more. The caller holds mu.
func (v *State) release(p *corev1.Pod, now time.Time) {
	if c, had := v.claims.Release(p.UID, v1alpha1.NodeName(p.Spec.NodeName), now); had {
		v.notifications.add(func() { v.Served(c, p) })
	}
}

// Served tells the listeners of a pod that waited and is bound or gone, by the claim that it had.
// The scaler calls it for a pod without a claim for which a warm node was opened.
func (v *State) Served(c decide.Claim, p *corev1.Pod) {
	for _, l := range v.listeners {
		if l.PodServed != nil {
			l.PodServed(c, p)
		}
	}
}

// place moves the pod's occupancy to the given node, "" for none. The caller holds mu.
func (v *State) place(p *corev1.Pod, on v1alpha1.NodeName) {
	was, counted := v.podNode[p.UID]
	if counted && was != on {
		delete(v.podNode, p.UID)
		v.boundPods.Delete(p.UID)
		if e := v.nodes[was]; e != nil {
			e.remove(p.UID)
			v.rebuildFromPods(e)
			v.forgetIfBare(was, e)
		}
	}
	if on == "" {
		return
	}
	e := v.entry(on)
	if o, ok := e.pods[p.UID]; !ok || !o.unchanged(p) { // else its new status says nothing that a decision reads
		v.podNode[p.UID] = on
		e.add(p)
		v.rebuildFromPods(e)
	}
	if p.Spec.NodeName != "" {
		v.boundPods.Store(p.UID, boundPod{on, e.pods[p.UID]})
	}
}

func (v *State) entry(name v1alpha1.NodeName) *nodeInfo {
	e := v.nodes[name]
	if e == nil {
		e = &nodeInfo{pods: map[types.UID]occupant{}}
		v.nodes[name] = e
	}
	return e
}

func (v *State) forgetIfBare(name v1alpha1.NodeName, e *nodeInfo) {
	if e.object == nil && len(e.pods) == 0 {
		delete(v.nodes, name)
	}
}
