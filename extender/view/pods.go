package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// SetPod takes in an added or changed pod: one that is bound, or nominated and so on its way,
// occupies its node until it is finished.
func (v *View) SetPod(p *corev1.Pod) {
	on := v1alpha1.NodeName(p.Spec.NodeName)
	if on == "" {
		on = v1alpha1.NodeName(p.Status.NominatedNodeName)
	}
	if fit.Finished(p) {
		on = ""
	}
	if v.settledAs(p, on) {
		return
	}
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	v.place(p, on)
	adoptOn := v.wait(p, now)
	if over(p) {
		v.release(p, now)
	} else {
		v.ledger.Nominated(p.UID, on)
	}
	if p.Spec.NodeName != "" {
		v.squeeze(v.nodeOf(v1alpha1.NodeName(p.Spec.NodeName)), now)
	}
	v.adopt(p, adoptOn, now)
}

// settledAs reports whether the pod is bound, and counts on its node as before. It takes no lock
// that a decision holds.
func (v *View) settledAs(p *corev1.Pod, on v1alpha1.NodeName) bool {
	was, _ := v.settled.Load(p.UID)
	s, ok := was.(settled)
	return ok && p.Spec.NodeName != "" && s.on == on && s.takesAsBefore(p)
}

// settled is a bound pod as it counts on its node.
type settled struct {
	on v1alpha1.NodeName
	occupant
}

// squeeze ends the claims for which the node has no room any more; nil is a node that is not known.
// The caller holds mu.
func (v *View) squeeze(n *claim.Node, now time.Time) {
	if n != nil {
		v.ended(v.ledger.Squeeze(n, now), now)
	}
}

// adopt takes over the claim of a pod that waits, if a node names it. The caller holds mu.
func (v *View) adopt(p *corev1.Pod, name v1alpha1.NodeName, now time.Time) {
	if n := v.nodeOf(name); n != nil {
		v.ledger.Adopt(p, n, now)
	}
}

// over reports whether the pod waits no more.
func over(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" || p.DeletionTimestamp != nil || fit.Finished(p)
}

// wait remembers a pod that waits, and returns the node that says it is promised to the pod, if one
// does.
func (v *View) wait(p *corev1.Pod, now time.Time) v1alpha1.NodeName {
	if over(p) {
		v.leave(p, now)
		return ""
	}
	_, known := v.waiting[p.UID]
	v.waiting[p.UID] = p
	if known {
		return ""
	}
	return v.published[p.UID]
}

// leave takes in that the pod waits no more. The caller holds mu, and has placed the pod.
func (v *View) leave(p *corev1.Pod, now time.Time) {
	delete(v.waiting, p.UID)
	if _, counts := v.on[p.UID]; !counts {
		v.gone[p.UID] = now
	}
}

func (v *View) nodeOf(name v1alpha1.NodeName) *claim.Node {
	if e := v.nodes[name]; e != nil {
		return e.node
	}
	return nil
}

// DeletePod takes in that a pod is gone.
func (v *View) DeletePod(p *corev1.Pod) {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	v.place(p, "")
	v.leave(p, now)
	v.release(p, now)
}

// release ends the claim of a pod that waits no more. The caller holds mu.
func (v *View) release(p *corev1.Pod, now time.Time) {
	if c, had := v.ledger.Release(p.UID, v1alpha1.NodeName(p.Spec.NodeName), now); had {
		v.told.add(func() { v.Served(c, p) })
	}
}

// Served tells the listeners of a pod that waited and is bound or gone, by the claim that it had.
// The scaler calls it for a pod without a claim for which a warm node was opened.
func (v *View) Served(c claim.Claim, p *corev1.Pod) {
	for _, l := range v.listeners {
		if l.Bound != nil {
			l.Bound(c, p)
		}
	}
}

// place moves the pod's occupancy to the given node, "" for none. The caller holds mu.
func (v *View) place(p *corev1.Pod, on v1alpha1.NodeName) {
	was, counted := v.on[p.UID]
	if counted && was != on {
		delete(v.on, p.UID)
		v.settled.Delete(p.UID)
		if e := v.nodes[was]; e != nil {
			e.remove(p.UID)
			v.rebuild(e)
			v.forgetIfBare(was, e)
		}
	}
	if on == "" {
		return
	}
	e := v.entry(on)
	if o, ok := e.pods[p.UID]; !ok || !o.takesAsBefore(p) { // else its new status says nothing that a decision reads
		v.on[p.UID] = on
		e.add(p)
		v.rebuild(e)
	}
	if p.Spec.NodeName != "" {
		v.settled.Store(p.UID, settled{on, e.pods[p.UID]})
	}
}

func (v *View) entry(name v1alpha1.NodeName) *entry {
	e := v.nodes[name]
	if e == nil {
		e = &entry{pods: map[types.UID]occupant{}}
		v.nodes[name] = e
	}
	return e
}

func (v *View) forgetIfBare(name v1alpha1.NodeName, e *entry) {
	if e.object == nil && len(e.pods) == 0 {
		delete(v.nodes, name)
	}
}
