package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// repairNode puts back the labels, taints and cordon that were removed from a node of ours.
func (c *Reconciler) repairNode(ctx context.Context, g gathered) error {
	if g.Node == nil || g.Node.State == "" || g.instance.Gone() {
		return nil
	}
	err := c.patch(ctx, g.node, transition.Mended(g.node, g.template(), c.typeToShow(g)))
	if apierrors.IsInvalid(err) {
		return nil // the Node is not as the cache shows it; what changed it brings an event
	}
	return client.IgnoreNotFound(err)
}

// typeToShow is the type that the cloud shows of an instance, "" while another one may be under
// way.
func (c *Reconciler) typeToShow(g gathered) string {
	running := g.Node.State == v1alpha1.StateRunning && g.Instance.State == provider.InstanceRunning
	stopped := g.Node.State == v1alpha1.StateStandby && g.Instance.State == provider.InstanceStopped
	if !running && !stopped || c.Starter.Returns(v1alpha1.NodeName(g.node.Name)) {
		return ""
	}
	return g.instance.Type
}

// launchedBy is the pool that the tag of the instance's launch names by its UID; empty where no
// pool has it.
func (c *Reconciler) launchedBy(ctx context.Context, e inventory.Entry) (v1alpha1.PoolName, error) {
	uid := inventory.LaunchedFor(e.Tags)
	if uid == "" {
		return "", nil
	}
	pools := &v1alpha1.NodePoolList{}
	if err := c.Reader.List(ctx, pools); err != nil {
		return "", err
	}
	for i := range pools.Items {
		if string(pools.Items[i].UID) == uid {
			return v1alpha1.PoolName(pools.Items[i].Name), nil
		}
	}
	return "", nil
}

// restorePool writes the pool's tag again that was removed from an instance of this cluster.
// Whose it was says its Node, or what an earlier sweep of this process showed, or the tag of its
// launch, and only where that pool exists. Without any the instance is left alone: nothing tells
// whose it is, and what is not surely ours is not touched.
func (c *Reconciler) restorePool(ctx context.Context, e inventory.Entry) (inventory.Entry, error) {
	n, _, err := c.nodesOf(ctx, e.ProviderID)
	if err != nil {
		return e, err
	}
	name := e.LastPool
	if n != nil && n.Labels[v1alpha1.LabelPool] != "" {
		name = v1alpha1.PoolName(n.Labels[v1alpha1.LabelPool])
	}
	if name == "" {
		if name, err = c.launchedBy(ctx, e); err != nil || name == "" {
			return e, cmp.Or(err, errNotOurs)
		}
	}
	pool, err := c.poolOf(ctx, name)
	if err != nil {
		return e, err
	}
	if pool == nil {
		return e, errNotOurs
	}
	if err := c.tagger(ctx).Rewrite(ctx, e.ID, map[string]string{v1alpha1.LabelPool: pool.Name}); err != nil {
		return e, err
	}
	e, _ = c.Inventory.Get(e.ID)
	return e, nil
}

// restoreTags writes tags again that the instance of a Node lacks, where it carries this cluster's
// UID and names no other owner. Without them no list shows it.
func (c *Reconciler) restoreTags(
	ctx context.Context, n *corev1.Node, i *provider.Instance,
) (*provider.Instance, error) {
	if i.Tags[v1alpha1.TagClusterUID] != c.Owner.UID {
		return i, nil
	}
	restored, _, err := c.tagger(ctx).Restore(ctx, i, v1alpha1.PoolName(n.Labels[v1alpha1.LabelPool]))
	if restored != i {
		c.Poke() // the next sweep shows it again
	}
	return restored, err
}

// deleteNode removes a Node whose instance is gone. An instance that lost our tags is missing in
// our lists too, so the cloud is asked about this very one first: then the tags are written again,
// and the Node stays.
func (c *Reconciler) deleteNode(ctx context.Context, g gathered, d lifecycle.Decision) error {
	if !g.instance.ConfirmedGone {
		instance, err := c.Cloud.GetInstance(ctx, string(g.instance.ID))
		switch {
		case provider.IsNotFound(err):
		case err != nil:
			return err
		case instance.State == provider.InstanceShuttingDown:
		case instance.State != provider.InstanceTerminated:
			return c.reclaim(ctx, g, instance)
		}
	}
	if g.Instance.Absent {
		if kept, err := c.keepAbsent(ctx, g); kept || err != nil {
			return err
		}
	}
	c.warmupFailed(g, d)
	uid := g.node.UID // not a Node of the same name that registered since
	err := c.Client.Delete(ctx, g.node, client.Preconditions{UID: &uid})
	if err == nil && (g.Node.State != v1alpha1.StateTerminating || g.Node.Stop.Reason == v1alpha1.StopTerminated) {
		c.orphan(g, fmt.Sprintf("Node %s deleted: instance %s is gone, and Stratos did not terminate it", g.node.Name,
			g.instance.ID))
	}
	return client.IgnoreNotFound(err)
}

// reclaim writes the tags again that an instance of ours has lost. Tags that name another owner are
// not changed: the instance is not ours then.
func (c *Reconciler) reclaim(ctx context.Context, g gathered, instance *provider.Instance) error {
	_, ours, err := c.tagger(ctx).Restore(ctx, instance, g.instance.Pool())
	if !ours {
		logr.FromContextOrDiscard(ctx).Info("instance of a Node of ours carries another owner's tags; leaving both alone",
			"tags", instance.Tags)
		return nil
	}
	c.Poke() // the next sweep shows it again, also where only the list lagged
	return err
}

// poolOrName is the pool, or, where it is gone, an object that names it.
func poolOrName(g gathered) *v1alpha1.NodePool {
	if g.pool != nil {
		return g.pool
	}
	return &v1alpha1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: string(g.instance.Pool())},
	}
}

// orphan reports on the pool what was removed that had lost its other half. The pool may be gone
// itself.
func (c *Reconciler) orphan(g gathered, note string) {
	c.Events.Eventf(poolOrName(g), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonOrphanRemoved), "Repair", "%s",
		note)
}

func (c *Reconciler) tagger(ctx context.Context) inventory.Tagger {
	return inventory.NewTagger(ctx, c.Cloud, c.Owner, c.Inventory)
}
