package decide

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// mayNotStart gives the reason why no node may be started in answer to this ask, "" if one may.
func mayNotStart(ask Ask) string {
	if why := MayNotStart(ask.Pod); why != "" {
		return why
	}
	if len(ask.Nodes) == 1 && ask.Pod.Status.NominatedNodeName == string(ask.Nodes[0].Name) {
		// The scheduler looks at the nominated node alone before it looks at all: another node may still
		// take the pod.
		return "only the nominated node was asked about"
	}
	return ""
}

// MayNotStart gives the reason why no node may ever be started for this pod, "" if one may.
func MayNotStart(pod *corev1.Pod) string {
	switch {
	case ownedByDaemonSet(pod):
		return "pods of a DaemonSet start no node"
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "a static pod starts no node"
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case pod.Annotations[v1alpha1.AnnotationIgnore] == "true":
		return "the pod is annotated " + v1alpha1.AnnotationIgnore
	case pod.Spec.SchedulingGroup != nil:
		// Pod groups are tried out in simulations; a start in answer to one could be for nothing.
		return "pods of a scheduling group start no node"
	}
	return ""
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
