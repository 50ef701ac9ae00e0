package view

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
)

// Homeless tells the listeners of claims that ended although their pods still wait.
func (v *View) Homeless(claims []claim.Claim) {
	if len(claims) == 0 {
		return
	}
	for _, l := range v.listeners {
		if l.Homeless != nil {
			l.Homeless(claims)
		}
	}
}

// ended tells of claims that ended by what was seen of their node. Every replica sees that, and only the one that made a claim is to place its pod
// anew: two that did would promise it two nodes, and start both.
func (v *View) ended(claims []claim.Claim) {
	var own []claim.Claim
	for i := range claims {
		if !claims[i].Adopted {
			own = append(own, claims[i])
			continue
		}
		for _, l := range v.listeners {
			if l.Orphaned != nil {
				l.Orphaned(types.NamespacedName{Namespace: claims[i].Ref.Namespace, Name: claims[i].Ref.Name})
			}
		}
	}
	v.Homeless(own)
}

// stillOurs puts back, for us, the pool's label that somebody took from a Node which shows its state. The leader is about to write it again;
// to give the node up meanwhile would start another for the pods that wait for this one.
func stillOurs(was, n *corev1.Node) *corev1.Node {
	if was == nil || was.UID != n.UID || n.Labels[v1alpha1.LabelPool] != "" || n.Labels[v1alpha1.LabelState] == "" || was.Labels[v1alpha1.LabelPool] == "" {
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

// publish takes in which pods the Node says are promised room on it, and returns those of them that wait.
func (v *View) publish(n *corev1.Node) []*corev1.Pod {
	name := v1alpha1.NodeName(n.Name)
	e := v.entry(name)
	v.unpublish(name, e)
	var waiting []*corev1.Pod
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
	return waiting
}
