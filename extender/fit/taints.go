package fit

import corev1 "k8s.io/api/core/v1"

const (
	messageUnschedulable = "node(s) were unschedulable"
	messageTaint         = "node(s) had untolerated taint(s)"
)

// Schedulable is the two in-tree filters that the dedicated profile moves into the extender,
// NodeUnschedulable and TaintToleration, in the order of the default profile: of a cordoned and
// tainted node the cordon is named. Nil means that neither objects. Neither objection can be helped
// by evicting pods.
func Schedulable(pod *corev1.Pod, taints []corev1.Taint, unschedulable bool) *Refusal {
	return schedulable(pod.Spec.Tolerations, taints, unschedulable)
}

// UntoleratedReason is the message of Schedulable, "" where neither filter objects. It allocates
// nothing: it is asked of every candidate.
func UntoleratedReason(pod *corev1.Pod, taints []corev1.Taint, unschedulable bool) string {
	switch {
	case unschedulable && !toleratesCordon(pod.Spec.Tolerations):
		return messageUnschedulable
	case firstUntolerated(pod.Spec.Tolerations, taints) >= 0:
		return messageTaint
	}
	return ""
}

func schedulable(tolerations []corev1.Toleration, taints []corev1.Taint, unschedulable bool) *Refusal {
	if refusal := cordoned(tolerations, unschedulable); refusal != nil {
		return refusal
	}
	return tainted(tolerations, taints)
}

func cordoned(tolerations []corev1.Toleration, unschedulable bool) *Refusal {
	if !unschedulable || toleratesCordon(tolerations) {
		return nil
	}
	return &Refusal{Reason: ReasonUnschedulable, Message: messageUnschedulable, Unresolvable: true}
}

func tainted(tolerations []corev1.Toleration, taints []corev1.Taint) *Refusal {
	i := firstUntolerated(tolerations, taints)
	if i < 0 {
		return nil
	}
	return &Refusal{Reason: ReasonTaint, Message: messageTaint, Unresolvable: true, Subject: taints[i].Key}
}

// toleratesCordon: a toleration of the taint that the node controller sets on cordoned nodes lifts
// the cordon itself.
func toleratesCordon(tolerations []corev1.Toleration) bool {
	return toleratedByAny(tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable,
		Effect: corev1.TaintEffectNoSchedule})
}

// firstUntolerated returns an index into taints, -1 if all that keep pods off are tolerated.
func firstUntolerated(tolerations []corev1.Toleration, taints []corev1.Taint) int {
	for i := range taints {
		if keepsOff(&taints[i]) && !toleratedByAny(tolerations, &taints[i]) {
			return i
		}
	}
	return -1
}

func keepsOff(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

func toleratedByAny(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], taint) {
			return true
		}
	}
	return false
}

// tolerates is corev1.Toleration.ToleratesTaint without its logger, which a pure package must not
// import; a test compares the two. The operators Lt and Gt tolerate nothing: their gate
// TaintTolerationComparisonOperators is off by default in 1.37, and where it is off the API server
// accepts them from no client.
func tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	if toleration.Effect != "" && toleration.Effect != taint.Effect {
		return false
	}
	if toleration.Key != "" && toleration.Key != taint.Key {
		return false
	}
	switch toleration.Operator {
	case "", corev1.TolerationOpEqual:
		return toleration.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	default:
		return false
	}
}
