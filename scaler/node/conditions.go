package node

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// sayStopping turns the Node's Ready once the cloud has accepted the stop, so that no controller
// relies on the kubelet's last report for a grace period. What the kubelet still reports while it
// goes down is put right when the instance is stopped.
func (c *Reconciler) sayStopping(ctx context.Context, n *corev1.Node) error {
	is := n.DeepCopy()
	if !notReady(is, "InstanceStopping", "Stratos stops the instance", metav1.NewTime(c.Now())) {
		return nil
	}
	return client.IgnoreNotFound(c.Client.Status().Patch(ctx, is, client.StrategicMergeFrom(n)))
}

// notReady turns Ready to Unknown, and reports whether it was anything else. The heartbeat stays
// the kubelet's own.
func notReady(n *corev1.Node, reason, message string, now metav1.Time) bool {
	ready := transition.Condition(n, corev1.NodeReady)
	if ready == nil || ready.Status == corev1.ConditionUnknown {
		return false
	}
	ready.Status, ready.Reason, ready.Message, ready.LastTransitionTime = corev1.ConditionUnknown, reason, message, now
	return true
}

// writeStandbyConditions writes what the cluster cannot see: the instance is stopped on purpose.
// Without it EndpointSlices would rely on the last report of the pods, and zone health on that of
// the node. The heartbeat times stay the kubelet's own. Standby comes last: while it does not stand
// there, syncCondition tries again.
func (c *Reconciler) writeStandbyConditions(
	ctx context.Context, n *corev1.Node, options ...client.MergeFromOption,
) error {
	now := metav1.NewTime(c.Now())
	is := n.DeepCopy()
	standby := corev1.NodeCondition{
		Type: v1alpha1.ConditionStandby, Status: corev1.ConditionTrue, Reason: "Stopped",
		Message: "instance is stopped and can be started", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	changed := notReady(is, "InstanceStopped", "Stratos stopped the instance", now)
	if err := c.podsNotReady(ctx, n.Name); err != nil {
		if changed { // zone health does not wait for a pod
			err = errors.Join(err, c.Client.Status().Patch(ctx, is, client.StrategicMergeFrom(n, options...)))
		}
		return err
	}
	if said := transition.Condition(is, v1alpha1.ConditionStandby); said != nil {
		*said = standby
	} else {
		is.Status.Conditions = append(is.Status.Conditions, standby)
	}
	return c.Client.Status().Patch(ctx, is, client.StrategicMergeFrom(n, options...))
}

// writeRunningConditions turns the condition that writeStandbyConditions wrote. It is left to the
// reconcile that the patch brings which opens the node: pods wait for that one, and none for this
// one.
func (c *Reconciler) writeRunningConditions(ctx context.Context, n *corev1.Node) error {
	is := n.DeepCopy()
	for i := range is.Status.Conditions {
		cond := &is.Status.Conditions[i]
		if cond.Type != v1alpha1.ConditionStandby || cond.Status == corev1.ConditionFalse {
			continue
		}
		now := metav1.NewTime(c.Now())
		cond.Status, cond.Reason, cond.Message = corev1.ConditionFalse, "Running", "instance was started"
		cond.LastHeartbeatTime, cond.LastTransitionTime = now, now
		return client.IgnoreNotFound(c.Client.Status().Patch(ctx, is, client.StrategicMergeFrom(n)))
	}
	return nil
}

// syncCondition turns the condition of a node that has opened, and makes up for a
// writeStandbyConditions that failed or died with its process.
func (c *Reconciler) syncCondition(ctx context.Context, g gathered) error {
	switch {
	case g.Node == nil:
		return nil
	case g.Node.State == v1alpha1.StateRunning:
		return c.writeRunningConditions(ctx, g.node)
	case g.Node.State == v1alpha1.StateStandby && g.Instance.State == provider.InstanceStopped:
		if said := transition.Condition(g.node, v1alpha1.ConditionStandby); said == nil ||
			said.Status != corev1.ConditionTrue {
			// The resource version is tested: said too late it would hide the report of a node that has
			// started since.
			return conflict.Ignore(c.writeStandbyConditions(ctx, g.node, client.MergeFromWithOptimisticLock{}))
		}
	}
	return nil
}
