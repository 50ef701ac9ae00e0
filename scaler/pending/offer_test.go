package pending

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
				Annotations: map[string]string{v1alpha1.AnnotationAllocatableAtStop: `{"cpu":"3","example.com/device":"1"}`}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory), "example.com/device": resource.MustParse("0")}},
		}
	}
	small, large, unknown := node("m5.large", "1900m", "7Gi"), node("m5.xlarge", "3900m", "7Gi"), node("", "3900m", "15Gi")
	promised := node("m5.large", "2", "8Gi")
	delete(promised.Status.Allocatable, "example.com/device")
	typeless := promised.DeepCopy()
	typeless.Labels = nil
	for name, c := range map[string]struct {
		nodes                     []*corev1.Node
		promised                  *corev1.Node
		want, cpu, memory, atStop string
	}{
		"of the first type":          {[]*corev1.Node{small}, promised, "m5.large", "1900m", "7Gi", "3"},
		"of a larger type":           {[]*corev1.Node{large}, promised, "m5.large", "2", "7Gi", "2"},
		"of both":                    {[]*corev1.Node{large, small}, promised, "m5.large", "1900m", "7Gi", "3"},
		"of a type not known":        {[]*corev1.Node{unknown}, promised, "", "3900m", "15Gi", "3"},
		"the class promises nothing": {[]*corev1.Node{large, small}, nil, "m5.xlarge", "3900m", "7Gi", "3"},
		"the class promises no type": {[]*corev1.Node{large, small}, typeless, "m5.xlarge", "3900m", "7Gi", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Offer{Promised: c.promised}
			pattern := o.patternOf(c.nodes)
			before := pattern.DeepCopy()
			n, whole := newNode(&v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, pattern, o)
			if !whole || n.Labels[corev1.LabelInstanceTypeStable] != c.want || n.Labels[corev1.LabelInstanceType] != c.want {
				t.Errorf("whole %t, labels %v, want type %s", whole, n.Labels, c.want)
			}
			has, want := n.Status.Allocatable, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.cpu),
				corev1.ResourceMemory: resource.MustParse(c.memory), "example.com/device": resource.MustParse("0")}
			if !equality.Semantic.DeepEqual(has, want) {
				t.Errorf("allocatable %v, want %v", has, want)
			}
			recorded := n.Annotations[v1alpha1.AnnotationAllocatableAtStop]
			if recorded != `{"cpu":"`+c.atStop+`","example.com/device":"1"}` {
				t.Errorf("recorded at the stop: %s, want %s cpu and the device", recorded, c.atStop)
			}
			if !equality.Semantic.DeepEqual(before, pattern) {
				t.Error("the pattern was changed")
			}
		})
	}
}

// TestANewNodeIsNotLikeOneThatRanAsAnotherType: what a node that has returned to the first type
// reports is of the type before, less than the first type has or more. So does one that is of
// another type still. A new one may offer what the class says, unless the cloud is out of the first
// type: then it is of another type too.
func TestANewNodeIsNotLikeOneThatRanAsAnotherType(t *testing.T) {
	typed := func(kind, cpu, record string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{corev1.LabelInstanceTypeStable: kind},
				Annotations: map[string]string{v1alpha1.AnnotationAllocatableAtStop: record},
			},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}
	}
	node := func(cpu, record string) *corev1.Node { return typed("m5.large", cpu, record) }
	promised := node("2", "")
	for name, c := range map[string]struct {
		nodes    []*corev1.Node
		promised *corev1.Node
		// cpu is that of a new node, whileOut while the cloud is out of the first type.
		cpu, whileOut string
	}{
		"another one has run as it": {[]*corev1.Node{node("3", `{}`), node("1900m", `{"cpu":"1900m"}`)}, promised,
			"1900m", "1900m"},
		"none has, it was larger":    {[]*corev1.Node{node("3", `{}`)}, promised, "2", "2"},
		"none has, it was smaller":   {[]*corev1.Node{node("1", `{}`)}, promised, "2", "1"},
		"none has, it is larger":     {[]*corev1.Node{typed("m5.xlarge", "3900m", `{}`)}, promised, "2", "2"},
		"none has, it has less":      {[]*corev1.Node{typed("m6i.large", "1", `{"cpu":"1"}`)}, promised, "2", "1"},
		"the class promises nothing": {[]*corev1.Node{node("3", `{}`)}, nil, "3", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			for isOfFirst, cpu := range map[bool]string{true: c.cpu, false: c.whileOut} {
				o := Offer{Promised: c.promised, OfFirstType: isOfFirst}
				n, whole := newNode(&v1alpha1.NodePool{}, o.patternOf(c.nodes), o)
				if got := n.Status.Allocatable.Cpu(); got.Cmp(resource.MustParse(cpu)) != 0 || !whole {
					t.Errorf("of the first type %t: cpu %s, whole %t, want %s and true", isOfFirst, got, whole, cpu)
				}
			}
		})
	}
}
