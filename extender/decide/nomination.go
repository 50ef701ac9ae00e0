package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// NominatedNode is the node to which the scheduler or another program has nominated the pod, "" for
// none. The pod is on its way there, and takes up room there. A nomination by Stratos only shows
// others a claim: see OwnNomination.
func NominatedNode(pod *corev1.Pod) v1alpha1.NodeName {
	if IsOwnNomination(pod.ManagedFields) {
		return ""
	}
	return v1alpha1.NodeName(pod.Status.NominatedNodeName)
}

// OwnNomination is the node to which Stratos has nominated a pod that is not bound, "" for none.
// Such a pod is still pending. It takes up room by its claim alone: the nomination may be stale.
func OwnNomination(pod *corev1.Pod) v1alpha1.NodeName {
	if pod.Spec.NodeName != "" || !IsOwnNomination(pod.ManagedFields) {
		return ""
	}
	return v1alpha1.NodeName(pod.Status.NominatedNodeName)
}

// IsOwnNomination reports whether a pod with these managed fields was nominated by Stratos. The
// field manager owns nothing else, and the API server drops its entry when another program changes
// or clears the nomination. A program that writes the same node does not become the owner.
func IsOwnNomination(fields []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == v1alpha1.FieldManagerNomination
	})
}
