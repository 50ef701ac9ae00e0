package webhook

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// certManagerNamespace is where cert-manager is installed by its own instructions.
const certManagerNamespace = "cert-manager"

// optIn gives the pods of opted-in namespaces to Stratos's scheduler. It never refuses a pod.
type optIn struct {
	decoder       admission.Decoder
	lookup        lookup
	schedulerName string
	// protected are namespaces whose pods Stratos and its scheduler need themselves: were they given
	// to that scheduler, none of them would come back once it is down.
	protected []string
}

// Handle answers with a patch of the two fields, so that nothing is lost of a pod whose version is
// newer than our Go types.
func (o optIn) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || slices.Contains(o.protected, req.Namespace) {
		return admission.Allowed("")
	}
	pod := &corev1.Pod{}
	if err := o.decoder.Decode(req, pod); err != nil || !mayBeGiven(pod, o.schedulerName) {
		return admission.Allowed("")
	}
	if in, err := o.lookup.optedIn(ctx, req.Namespace); err != nil || !in {
		return admission.Allowed("")
	}
	patch := optInPatch(pod, o.schedulerName)
	if len(patch) == 0 {
		return admission.Allowed("")
	}
	return admission.Patched("", patch...)
}

// mayBeGiven reports whether the opt-in is meant for the pod: not one that a user has decided
// about already (another scheduler, a node by name, stratos.sh/ignore), nor one that belongs to its
// node (mirror pods, DaemonSets), for which no node is ever started.
func mayBeGiven(pod *corev1.Pod, schedulerName string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case pod.Spec.NodeName != "":
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
	case pod.Annotations[v1alpha1.AnnotationIgnore] == "true":
	case owner != nil && owner.Kind == "DaemonSet":
	default:
		return slices.Contains([]string{"", corev1.DefaultSchedulerName, schedulerName}, pod.Spec.SchedulerName)
	}
	return false
}

func optInPatch(pod *corev1.Pod, schedulerName string) []webhook.JSONPatchOp {
	var patch []webhook.JSONPatchOp
	if pod.Spec.SchedulerName != schedulerName {
		patch = append(patch, webhook.JSONPatchOp{Operation: "add", Path: "/spec/schedulerName", Value: schedulerName})
	}
	toleration := corev1.Toleration{Key: v1alpha1.TaintDedicated, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}
	switch {
	case slices.ContainsFunc(pod.Spec.Tolerations, toleratesDedicated):
	case len(pod.Spec.Tolerations) == 0:
		patch = append(patch, webhook.JSONPatchOp{Operation: "add", Path: "/spec/tolerations",
			Value: []corev1.Toleration{toleration}})
	default:
		patch = append(patch, webhook.JSONPatchOp{Operation: "add", Path: "/spec/tolerations/-", Value: toleration})
	}
	return patch
}

// toleratesDedicated: whatever value the pool gave the taint.
func toleratesDedicated(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpExists &&
		(t.Key == v1alpha1.TaintDedicated || t.Key == "") &&
		(t.Effect == corev1.TaintEffectNoSchedule || t.Effect == "")
}
