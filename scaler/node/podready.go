package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// podsNotReady turns the Ready conditions of the node's pods to False, so that they are no
// endpoints of Services while the instance is stopped. kube-controller-manager does that only where
// it turns the Node's Ready itself, and Stratos is first with that. The pods are read from the API
// server, because the cache keeps no status of bound pods. One pod that cannot be written keeps no
// other. A conflict is a pod that changed since it was read.
func (c *Reconciler) podsNotReady(ctx context.Context, node string) error {
	bound := &corev1.PodList{}
	if err := c.Live.List(ctx, bound, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return fmt.Errorf("list the pods of node %s that stops: %w", node, err)
	}
	ready := slices.DeleteFunc(bound.Items, func(p corev1.Pod) bool { return !podReady(&p) })
	if len(ready) == 0 {
		return nil
	}
	// After the list: where no start was asked for by now, a report of its kubelet changes the pod,
	// and the write conflicts.
	if started, err := c.startedSince(ctx, node); started || err != nil {
		return err
	}
	var errs []error
	for i := range ready {
		if err := c.podNotReady(ctx, &ready[i]); err != nil {
			errs = append(errs, fmt.Errorf("write Ready=False on pod %s/%s of node %s that stops: %w",
				ready[i].Namespace, ready[i].Name, node, err))
		}
	}
	return errors.Join(errs...)
}

// startedSince reports whether the Node has moved on since it was to stop, by the API server.
func (c *Reconciler) startedSince(ctx context.Context, node string) (bool, error) {
	n := &corev1.Node{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	switch v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) {
	case v1alpha1.StateStarting, v1alpha1.StateRunning:
		return true, nil
	default:
		return false, nil
	}
}

func (c *Reconciler) podNotReady(ctx context.Context, was *corev1.Pod) error {
	pod := was.DeepCopy()
	for i := range pod.Status.Conditions {
		if ready := &pod.Status.Conditions[i]; ready.Type == corev1.PodReady {
			ready.Status, ready.Reason = corev1.ConditionFalse, "InstanceStopped"
			ready.Message, ready.LastTransitionTime = "Stratos stopped the instance of the node", metav1.NewTime(c.Now())
		}
	}
	err := c.Client.Status().Patch(ctx, pod, client.StrategicMergeFrom(was, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
