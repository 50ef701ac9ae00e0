package view

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
)

// ended has the listeners told of claims that ended although their pods still wait. Every replica
// sees that, and only the one that made a claim is to place its pod anew: two that did would
// promise it two nodes, and start both. The caller holds mu.
func (v *View) ended(claims []claim.Claim, now time.Time) {
	var own []claim.Claim
	for i := range claims {
		if claims[i].Adopted {
			v.follow(&claims[i], now)
		} else {
			own = append(own, claims[i])
		}
	}
	for _, l := range v.listeners {
		if l.Homeless != nil && len(own) > 0 {
			v.told.add(func() { l.Homeless(own) })
		}
	}
}

// follow takes over the claim that the replica of an ended one has made since, if the Node of that
// was seen first. The caller holds mu.
func (v *View) follow(c *claim.Claim, now time.Time) {
	pod, at := v.waiting[c.Pod], v.published[c.Pod]
	if pod != nil && at != "" && at != c.Node {
		v.adopt(pod, at, now)
		return
	}
	for _, l := range v.listeners {
		if l.Orphaned != nil {
			v.told.add(func() { l.Orphaned(types.NamespacedName{Namespace: c.Ref.Namespace, Name: c.Ref.Name}) })
		}
	}
}

// Unknown reports whether the view has not shown the pod, or not of late: another replica may know
// it.
func (v *View) Unknown(pod types.UID) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, counts := v.on[pod]
	_, gone := v.gone[pod]
	return !counts && !gone && v.waiting[pod] == nil
}

// stillOurs puts back, for us, the pool's label that somebody took from a Node which shows its
// state. The leader is about to write it again; to give the node up meanwhile would start another
// for the pods that wait for this one.
func stillOurs(was, n *corev1.Node) *corev1.Node {
	if was == nil || was.UID != n.UID || n.Labels[v1alpha1.LabelPool] != "" || n.Labels[v1alpha1.LabelState] == "" ||
		was.Labels[v1alpha1.LabelPool] == "" {
		return n
	}
	n = n.DeepCopy()
	n.Labels[v1alpha1.LabelPool] = was.Labels[v1alpha1.LabelPool]
	return n
}

// unpublish forgets which pods the Node said are promised room on it.
func (v *View) unpublish(name v1alpha1.NodeName, e *entry) {
	for _, uid := range e.published {
		if v.published[uid] == name {
			delete(v.published, uid)
		}
	}
	e.published = nil
}

// publish takes in which pods the Node says are promised room on it, and returns them and those of
// them that wait.
func (v *View) publish(n *corev1.Node) (published []types.UID, waiting []*corev1.Pod) {
	name := v1alpha1.NodeName(n.Name)
	e := v.entry(name)
	v.unpublish(name, e)
	for uid := range strings.SplitSeq(n.Annotations[v1alpha1.AnnotationClaims], ",") {
		if uid == "" {
			continue
		}
		v.published[types.UID(uid)] = name
		e.published = append(e.published, types.UID(uid))
		if pod := v.waiting[types.UID(uid)]; pod != nil {
			waiting = append(waiting, pod)
		}
	}
	return e.published, waiting
}
