package pending

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestANewNodeIsOfTheFirstType: a pod that only a larger fallback type could take, or that selects
// it, would have instances launched without end that it never fits.
func TestANewNodeIsOfTheFirstType(t *testing.T) {
	node := func(instanceType, cpu, memory string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelInstanceTypeStable: instanceType,
				corev1.LabelInstanceType: instanceType},
				Annotations: map[string]string{v1alpha1.AnnotationAllocatableAtStop: "{}"}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory), "example.com/device": resource.MustParse("1")}},
		}
	}
	promised := node("m5.large", "2", "8Gi")
	delete(promised.Status.Allocatable, "example.com/device")
	for name, c := range map[string]struct {
		pattern     *corev1.Node
		promised    *corev1.Node
		want        string
		cpu, memory string
		recorded    bool
	}{
		"of the first type":          {node("m5.large", "1900m", "7Gi"), promised, "m5.large", "1900m", "7Gi", true},
		"of a larger type":           {node("m5.xlarge", "3900m", "7Gi"), promised, "m5.large", "2", "7Gi", false},
		"of a type not known":        {node("", "3900m", "15Gi"), promised, "", "3900m", "15Gi", true},
		"the class promises nothing": {node("m5.xlarge", "3900m", "15Gi"), nil, "m5.xlarge", "3900m", "15Gi", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.pattern.DeepCopy()
			n, whole := newNode(&v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, c.pattern,
				Offer{Promised: c.promised})
			if !whole || n.Labels[corev1.LabelInstanceTypeStable] != c.want || n.Labels[corev1.LabelInstanceType] != c.want {
				t.Errorf("whole %t, labels %v, want type %s", whole, n.Labels, c.want)
			}
			has := n.Status.Allocatable
			if has.Cpu().Cmp(resource.MustParse(c.cpu)) != 0 || has.Memory().Cmp(resource.MustParse(c.memory)) != 0 ||
				has["example.com/device"] != resource.MustParse("1") {
				t.Errorf("allocatable %v", has)
			}
			if recorded := n.Annotations[v1alpha1.AnnotationAllocatableAtStop] != ""; recorded != c.recorded {
				t.Errorf("allocatable at the last stop is taken: %t, want %t", recorded, c.recorded)
			}
			if !before.Status.Allocatable.Cpu().Equal(*c.pattern.Status.Allocatable.Cpu()) {
				t.Error("the pattern was changed")
			}
		})
	}
}
