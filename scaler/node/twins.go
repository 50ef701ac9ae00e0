package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// nodesOf finds the Node of the instance by its providerID, exactly, and other Nodes that carry the
// same one: a kubelet may register under another name than at its last boot. All are empty if there
// is none.
func (c *Reconciler) nodesOf(ctx context.Context, providerID string) (*corev1.Node, []corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexProviderID: providerID}); err != nil ||
		len(list.Items) == 0 {
		return nil, nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return inventory.Current(&a, &b) })
	return &list.Items[0], list.Items[1:], nil
}

// outlived reports whether no kubelet reports under the twin's name any more. That of a running
// node may have pods, and gets the time until its Ready turns Unknown. Of any other a later report
// under the present name is proof enough: to wait would have the two Nodes start and stop one
// machine in turn.
func outlived(twin, present *corev1.Node) bool {
	if !inventory.Reports(twin) {
		return true
	}
	running := v1alpha1.NodeState(twin.Labels[v1alpha1.LabelState]) == v1alpha1.StateRunning
	last, latest := inventory.LastReport(twin), inventory.LastReport(present)
	return !running && last.Before(&latest)
}

// deleteTwins deletes the Nodes under which the instance's kubelet does not report any more, once
// it is Ready under its present name.
func (c *Reconciler) deleteTwins(ctx context.Context, g gathered) error {
	if len(g.twins) == 0 || g.Node == nil || !g.Node.Ready {
		return nil
	}
	for i := range g.twins {
		twin := &g.twins[i]
		if !outlived(twin, g.node) {
			continue
		}
		uid := twin.UID // not a Node of the same name that registered since
		if err := c.Client.Delete(ctx, twin, client.Preconditions{UID: &uid}); err != nil {
			return client.IgnoreNotFound(err)
		}
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonOrphanRemoved,
			fmt.Sprintf("Node %s deleted: the kubelet of instance %s registers as %s now", twin.Name, g.instance.ID,
				g.node.Name))
	}
	return nil
}
