package node

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

// drain evicts the workload pods. What cannot be evicted now is tried again later, and is never
// forced.
func (c *Reconciler) drain(ctx context.Context, g gathered) error {
	_, err := c.evictAll(ctx, g)
	return err
}

// askFirst reports whether the node may be drained. One whose last drain did not end is asked about
// by dry-run evictions while it is still open: to close it and to evict half of its pods would gain
// nothing. A refusal counts as a failed drain.
func (c *Reconciler) askFirst(ctx context.Context, g gathered, reason v1alpha1.StopReason) (bool, error) {
	ends := g.Policy.Bounded // by deleting the pods that are left
	if g.Node.State != v1alpha1.StateRunning || !reason.TakesInUse() || g.Node.DrainFailed.IsZero() || ends {
		return true, nil
	}
	refused, err := c.evictAll(ctx, g, client.DryRunAll)
	if err != nil || refused == 0 {
		return err == nil, err
	}
	return false, c.patch(ctx, g.node, transition.DrainRefused(g.node, c.Now()))
}

// evictAll asks for the eviction of each workload pod, and reports each refusal. An error of one
// keeps no other.
func (c *Reconciler) evictAll(ctx context.Context, g gathered, options ...client.SubResourceCreateOption) (refused int,
	err error) {
	pods, err := c.podsOn(ctx, g.node.Name)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, p := range transition.WorkloadPods(g.node.Name, c.Namespace, pods) {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
			continue
		}
		why, err := c.evict(ctx, g, p, options...)
		errs = append(errs, err)
		if why != "" {
			refused++
			// The pod as related object: events are one series by their objects, reason and action, whatever
			// the words.
			c.Events.Eventf(g.node, p, corev1.EventTypeWarning, string(v1alpha1.ReasonDrainFailed), "Drain", "%s", why)
		}
	}
	return refused, errors.Join(errs...)
}

// evict asks for one eviction. It returns why the pod stays for now, "" where it goes. The error is
// one by which the API server has not said anything about the pod.
func (c *Reconciler) evict(ctx context.Context, g gathered, p *corev1.Pod,
	options ...client.SubResourceCreateOption) (string, error) {
	if key := pool.ProtectedBy(p.Annotations); replacing(g) && key != "" {
		return fmt.Sprintf("pod %s/%s is annotated %s", p.Namespace, p.Name, key), nil
	}
	uid := p.UID // not its successor of the same name
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	}
	err := c.Client.SubResource("eviction").Create(ctx, p, eviction, options...)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "", nil // a conflict: the pod has changed, and our watch is about to show it
	case !answered(err):
		return "", err
	}
	return fmt.Sprintf("pod %s/%s cannot be evicted now: %v", p.Namespace, p.Name, err), nil
}

// answered reports whether the error is the API server's answer, and not that it could not be
// reached.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) &&
		!apierrors.IsServerTimeout(err)
}

// deletePods ends the drain: the pods that are left are deleted, each with the grace that it asks
// for.
func (c *Reconciler) deletePods(ctx context.Context, g gathered) error {
	pods, err := c.podsOn(ctx, g.node.Name)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range transition.WorkloadPods(g.node.Name, c.Namespace, pods) {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
			continue
		}
		uid := p.UID // not its successor of the same name
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, p, client.Preconditions{UID: &uid})); err != nil {
			errs = append(errs, err)
			continue
		}
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonDrainFailed,
			fmt.Sprintf("pod %s/%s is deleted: disruption.terminationGracePeriod has passed", p.Namespace, p.Name))
	}
	return errors.Join(errs...)
}
