package node

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/scaler/transition"
)

// deleteLeft deletes without grace the pods that were being deleted when their kubelet went down,
// or since. They do not run: the cloud says that the instance is stopped. Left alone they would
// stay until the next start, and the DaemonSet controller, which counts them as unavailable, would
// hold up a roll-out in the whole cluster.
func (c *Reconciler) deleteLeft(ctx context.Context, g gathered) error {
	pods, err := c.podsOn(ctx, g.node.Name)
	if err != nil {
		return err
	}
	for _, p := range transition.DeletingPods(g.node.Name, c.Namespace, pods) {
		uid := p.UID // not its successor of the same name
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, p, client.Preconditions{UID: &uid},
			client.GracePeriodSeconds(0))); err != nil {
			return err
		}
	}
	return nil
}
