package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func nominatedBy(manager, node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.NominatedNodeName = node
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager})
	}
}

func TestWhoseANominationIs(t *testing.T) {
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "d" }
	for name, c := range map[string]struct {
		pod         *corev1.Pod
		others, own v1alpha1.NodeName
	}{
		"none":                   {pod("a"), "", ""},
		"the scheduler's":        {pod("a", nominatedBy("kube-scheduler", "c")), "c", ""},
		"without managed fields": {pod("a", nominatedTo("c")), "c", ""},
		"ours":                   {pod("a", nominatedBy(v1alpha1.FieldManagerNomination, "c")), "", "c"},
		"ours beside other writers": {pod("a", nominatedBy(v1alpha1.FieldManagerNomination, "c"), nominatedBy("k", "c")),
			"", "c"},
		"ours on a bound pod": {pod("a", nominatedBy(v1alpha1.FieldManagerNomination, "c"), bound), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NominatedNode(c.pod); got != c.others {
				t.Errorf("nominated by others to %q, want %q", got, c.others)
			}
			if got := OwnNomination(c.pod); got != c.own {
				t.Errorf("nominated by Stratos to %q, want %q", got, c.own)
			}
		})
	}
}
