package nodeclass

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// fallingBack is a class that may name fallback types.
type fallingBack interface {
	ResolvedTypes() []v1alpha1.InstanceTypeStatus
}

// leftOut are the types that instances of the class must not be of, with the reasons.
func leftOut(class v1alpha1.NodeClass) (names, why []string) {
	c, ok := class.(fallingBack)
	if !ok {
		return nil, nil
	}
	for _, t := range c.ResolvedTypes() {
		if !t.Usable {
			names, why = append(names, t.Type), append(why, t.Type+" ("+t.Reason+")")
		}
	}
	return names, why
}

// leaveOutFailed keeps types left out that failed at starts: those that this process has seen fail,
// and those that the status says, as long as the spec stands.
func (c *Reconciler) leaveOutFailed(before runtime.Object, class v1alpha1.NodeClass) {
	is, ok := class.(fallingBack)
	was, ok2 := before.(fallingBack)
	old, ok3 := before.(v1alpha1.NodeClass)
	if !ok || !ok2 || !ok3 {
		return
	}
	failed := map[string]string{}
	if c.FailedTypes != nil {
		maps.Copy(failed, c.FailedTypes(class.GetName(), class.GetGeneration()))
	}
	if observed, _ := old.StatusParts(); *observed == class.GetGeneration() {
		for _, t := range was.ResolvedTypes() {
			if t.Failed {
				failed[t.Type] = t.Reason
			}
		}
	}
	types := is.ResolvedTypes()
	for i := range types {
		if why := failed[types[i].Type]; why != "" {
			types[i].Usable, types[i].Failed, types[i].Reason = false, true, why
		}
	}
}

// leftOutMessage bounds the message: an event has room for 1024 bytes, a reason alone may fill it.
func leftOutMessage(why []string) string {
	const shown, most = 5, 900
	message := "left out: " + v1alpha1.FirstNames(why, shown)
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "..."
	}
	return message + "; status.instanceTypes has all"
}

// setInstanceTypes says whether all types that the class names are usable. A class without fallback
// types has no such condition.
func setInstanceTypes(class v1alpha1.NodeClass,
	set func(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason, message string)) {
	_, conditions := class.StatusParts()
	c, ok := class.(fallingBack)
	if !ok || len(c.ResolvedTypes()) == 0 {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionInstanceTypesUsable)
		return
	}
	if _, why := leftOut(class); len(why) > 0 {
		set(v1alpha1.ConditionInstanceTypesUsable, metav1.ConditionFalse, v1alpha1.ReasonInstanceTypesLeftOut,
			leftOutMessage(why))
		return
	}
	set(v1alpha1.ConditionInstanceTypesUsable, metav1.ConditionTrue, v1alpha1.ReasonInstanceTypesMatch,
		"instances may be of all types that the class names")
}

// reportInstanceTypes says in an event that a type begins to be left out. The status remembers it,
// so a new leader does not say it again.
func (c *Reconciler) reportInstanceTypes(before, class v1alpha1.NodeClass) {
	was, _ := leftOut(before)
	is, why := leftOut(class)
	if slices.ContainsFunc(is, func(t string) bool { return !slices.Contains(was, t) }) {
		c.Events.Eventf(class, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonInstanceTypesLeftOut), "Resolve",
			"%s", leftOutMessage(why))
	}
}
