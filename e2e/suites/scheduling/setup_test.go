// Package scheduling proves on a real control plane what happens between kube-scheduler and the
// extender: starts at filter time, taints and cordons checked as the stock profile checks them, and
// preemption that never evicts in vain.
package scheduling

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// mustLive fails the test unless the pod is there, on the node, and is not being deleted.
func mustLive(t *testing.T, r *framework.Rig, pod *corev1.Pod, on string) {
	t.Helper()
	p, err := assert.PodOf(t.Context(), r, pod)
	switch {
	case err != nil:
		t.Errorf("pod %s: %v", pod.Name, err)
	case p.DeletionTimestamp != nil, p.Spec.NodeName != on, p.Status.Phase == corev1.PodFailed:
		t.Errorf("pod %s: deletion %v, node %q (want %q), phase %s %s", p.Name, p.DeletionTimestamp, p.Spec.NodeName, on,
			p.Status.Phase, p.Status.Reason)
	}
}

// awaitUnschedulable waits until the pod's scheduler has called it unschedulable.
func awaitUnschedulable(t *testing.T, r *framework.Rig, pod *corev1.Pod) {
	t.Helper()
	assert.Await(t, "pod "+pod.Name+" unschedulable", func(ctx context.Context) (bool, error) {
		p, err := assert.PodOf(ctx, r, pod)
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, fmt.Errorf("node %q, %s", p.Spec.NodeName, framework.WhyPending(p))
	})
}
