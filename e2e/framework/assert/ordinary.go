package assert

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Ordinary is a Node that is not of a pool: Ready, without a kubelet. Its memory is 4 GiB for each
// cpu.
func Ordinary(name string, cpu int64, taints ...corev1.Taint) *corev1.Node {
	now := metav1.Now()
	size := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(cpu<<32, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
}

// Join creates the nodes and waits until kube-controller-manager has said its part: the taint that
// admission puts on every new node is gone, and a cordoned node has the taint of that name.
func Join(t *testing.T, r *framework.Rig, nodes ...*corev1.Node) {
	t.Helper()
	Create(t, r, Objects(nodes)...)
	for _, n := range nodes {
		want := slices.Clone(n.Spec.Taints)
		// Read back from the answer to the creation, in which admission's taint stands already.
		want = slices.DeleteFunc(want, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		if n.Spec.Unschedulable {
			want = append(want, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		AwaitNode(t, r, n.Name, fmt.Sprintf("taints %v", want),
			func(n *corev1.Node) bool { return sameTaints(n.Spec.Taints, want) })
	}
}

func sameTaints(a, b []corev1.Taint) bool {
	in := func(taints []corev1.Taint, x corev1.Taint) bool {
		return slices.ContainsFunc(taints, func(y corev1.Taint) bool { return x.MatchTaint(&y) && x.Value == y.Value })
	}
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !in(b, x) {
			return false
		}
	}
	return true
}
