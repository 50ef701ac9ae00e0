package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// TestTheWorkloadPriorityClass: a scheduler keeps the nominations of its pods, it changes no order
// of theirs, and no pod has it unasked.
func TestTheWorkloadPriorityClass(t *testing.T) {
	classes := ofKind(t, "PriorityClass")
	if len(classes) != 1 || classes[0].set != "everything-on" {
		t.Fatalf("priority classes %v, want one, where it is asked for", classes)
	}
	class := schedulingv1.PriorityClass{}
	classes[0].decode(t, &class)
	if class.Name != "stratos" || class.Value != 0 || class.GlobalDefault || class.PreemptionPolicy == nil ||
		*class.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("priority class %+v, want stratos with value 0 and preemptionPolicy Never", class)
	}
}

// TestNominationsCanBeTurnedOff: the value sets the flag.
func TestNominationsCanBeTurnedOff(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		pod := deployment(t, o).Spec.Template.Spec
		off := slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool {
			return slices.Contains(c.Args, "--nominate=false")
		})
		if off != (o.set == "everything-off") {
			t.Errorf("%s: nominations off %t", o, off)
		}
	}
}
