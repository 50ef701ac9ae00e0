// Package scheduling proves on a real control plane what happens between kube-scheduler and the extender: starts at filter time, taints
// and cordons judged as the stock profile judges them, and preemption that never evicts in vain.
package scheduling

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/ground"
	"github.com/stratos-sh/stratos/e2e/rig"
)

// mustLive fails the test unless the pod is there, on the node, and nobody has asked for its deletion.
func mustLive(t *testing.T, r *rig.Rig, pod *corev1.Pod, on string) {
	t.Helper()
	p, err := ground.PodOf(t.Context(), r, pod)
	switch {
	case err != nil:
		t.Errorf("pod %s: %v", pod.Name, err)
	case p.DeletionTimestamp != nil, p.Spec.NodeName != on, p.Status.Phase == corev1.PodFailed:
		t.Errorf("pod %s: deletion %v, node %q (want %q), phase %s %s", p.Name, p.DeletionTimestamp, p.Spec.NodeName, on, p.Status.Phase, p.Status.Reason)
	}
}

// awaitUnschedulable waits until the pod's scheduler has called it unschedulable in words that ok accepts, and returns them.
func awaitUnschedulable(t *testing.T, r *rig.Rig, pod *corev1.Pod, ok func(message string) bool) string {
	t.Helper()
	message := ""
	ground.Await(t, "pod "+pod.Name+" unschedulable", func(ctx context.Context) (bool, error) {
		p, err := ground.PodOf(ctx, r, pod)
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && ok(c.Message) {
				message = c.Message
				return true, nil
			}
		}
		return false, fmt.Errorf("node %q, %s", p.Spec.NodeName, rig.WhyPending(p))
	})
	return message
}

func anyWords(string) bool { return true }

// ordinary is a Node that is not of a pool: Ready, without a kubelet. Its memory is 4 GiB for each cpu.
func ordinary(name string, cpu int64, taints ...corev1.Taint) *corev1.Node {
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

// join creates the nodes and waits until kube-controller-manager has said its part: the taint that admission puts on every new node is
// gone, and a cordoned node has the taint of that name.
func join(t *testing.T, r *rig.Rig, nodes ...*corev1.Node) {
	t.Helper()
	ground.Create(t, r, ground.Objects(nodes)...)
	for _, n := range nodes {
		want := slices.Clone(n.Spec.Taints)
		// Read back from the answer to the creation, in which admission's taint stands already.
		want = slices.DeleteFunc(want, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		if n.Spec.Unschedulable {
			want = append(want, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		awaitTaints(t, r, n.Name, want)
	}
}

func awaitTaints(t *testing.T, r *rig.Rig, node string, want []corev1.Taint) {
	t.Helper()
	ground.Await(t, "taints of node "+node, func(ctx context.Context) (bool, error) {
		now := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: node}, now); err != nil {
			return false, err
		}
		if sameTaints(now.Spec.Taints, want) {
			return true, nil
		}
		return false, fmt.Errorf("taints %v, want %v", now.Spec.Taints, want)
	})
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
