package view

import (
	"maps"
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
	var adoptOn v1alpha1.NodeName
	v.takeIn(p, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.place(p, on)
		adoptOn = v.wait(p)
	}, on)
	if bound := v1alpha1.NodeName(p.Spec.NodeName); bound != "" && v.ledger.Promised(bound) {
		v.squeeze(bound)
	}
	if adoptOn != "" {
		v.adopt(p, adoptOn)
	}
}

// takeIn makes the pod count on the node, "" for none, and tells the ledger.
func (v *View) takeIn(p *corev1.Pod, count func(), on v1alpha1.NodeName) {
	if !v.ledger.Knows(p.UID) { // most events of most pods: they must not wait for decisions, nor decisions for them
		count()
		if !v.ledger.Knows(p.UID) {
			return
		}
		count = func() {} // a decision that began before promises the pod room: it is made, and then told
	}
	if over(p) {
		v.release(p, count)
	} else {
		v.ledger.Nominated(p.UID, on, count)
	}
}

// squeeze ends the claims for which the node has no room any more.
func (v *View) squeeze(name v1alpha1.NodeName) {
	if v.ledger.Promised(name) {
		v.Ended(v.ledger.Squeeze(v.newest(name), v.now()))
	}
}

// adopt takes over the claim of a pod that waits.
func (v *View) adopt(p *corev1.Pod, name v1alpha1.NodeName) {
	v.ledger.Adopt(p, func() *claim.Node {
		if v.Waiting(p.UID) == nil {
			return nil
		}
		return v.newest(name)()
	}, v.now())
}

// over reports whether the pod waits no more.
func over(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" || p.DeletionTimestamp != nil || fit.Finished(p)
}

// wait remembers a pod that waits, and returns the node that says it is promised to the pod, if one
// does.
func (v *View) wait(p *corev1.Pod) v1alpha1.NodeName {
	if over(p) {
		v.leave(p)
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
func (v *View) leave(p *corev1.Pod) {
	delete(v.waiting, p.UID)
	if _, counts := v.on[p.UID]; !counts {
		v.gone[p.UID] = v.now()
	}
}

// ForgetGone forgets the pods that went before the given time.
func (v *View) ForgetGone(before time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.gone, func(_ types.UID, at time.Time) bool { return at.Before(before) })
}

func (v *View) nodeOf(name v1alpha1.NodeName) *claim.Node {
	if e := v.nodes[name]; e != nil {
		return e.node
	}
	return nil
}

// DeletePod takes in that a pod is gone.
func (v *View) DeletePod(p *corev1.Pod) {
	v.mu.Lock()
	v.place(p, "")
	v.leave(p)
	v.mu.Unlock()
	if v.ledger.Knows(p.UID) {
		v.release(p, func() {})
	}
}

func (v *View) release(p *corev1.Pod, count func()) {
	if c, had := v.ledger.Settle(p.UID, v1alpha1.NodeName(p.Spec.NodeName), v.now(), count); had {
		v.Served(c, p)
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
	if o, ok := e.pods[p.UID]; ok && o.takesAsBefore(p) {
		return // a new status says nothing that a decision reads
	}
	v.on[p.UID] = on
	e.add(p)
	v.rebuild(e)
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
