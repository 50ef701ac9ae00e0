package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// warnDaemonSets tells the DaemonSets that have a pod on a stopped node: that pod counts as
// unavailable, so their rolling updates stop when maxUnavailable such pods are there.
func (c *Reconciler) warnDaemonSets(ctx context.Context, g gathered) error {
	if g.Node == nil || g.Node.State != v1alpha1.StateStandby {
		return nil
	}
	pods, err := c.podsOn(ctx, g.node.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		owner := metav1.GetControllerOfNoCopy(&pods[i])
		if owner == nil || owner.Kind != "DaemonSet" || !c.warned.Due(owner.UID, c.Now()) {
			continue
		}
		c.Events.Eventf(
			&corev1.ObjectReference{
				APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: pods[i].Namespace, Name: owner.Name, UID: owner.UID,
			},
			nil,
			corev1.EventTypeWarning,
			string(v1alpha1.ReasonDaemonSetCountsStandby),
			"Explain",
			"pod %s on standby node %s counts as unavailable, so rolling updates of this DaemonSet will hang; add the node affinity %s NotIn [%s] (docs/operate.md)",
			pods[i].Name,
			g.node.Name,
			v1alpha1.LabelState,
			v1alpha1.StateStandby,
		)
	}
	return nil
}
