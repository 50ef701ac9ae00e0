package node

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/pool"
)

// raw is what gather has read about one instance: observe makes the observation of it. A field that
// nothing depends on in the state of the Node is not read, and is empty.
type raw struct {
	instance inventory.Entry
	// pool is nil where it is gone.
	pool *v1alpha1.NodePool
	// class is read for a node in warm-up: who stops it may depend on the class. It is nil where there
	// is none.
	class v1alpha1.NodeClass
	// node is nil while no Node carries the instance's providerID. Then there are no twins, pods and
	// so on either.
	node *corev1.Node
	// twins are other Nodes with the same providerID.
	twins []corev1.Node
	// pods are bound or nominated to the node.
	pods []corev1.Pod
	// daemonSets are those of the cluster, for the node's network and its images.
	daemonSets []*appsv1.DaemonSet
	// volumes are those of a node that is being drained.
	volumes nodeVolumes
	// poolNodes are the Nodes of the pool on which the decision about this one depends. This one may
	// be among them.
	poolNodes []poolNode

	memory
	settings
}

// memory is what this process knows of the instance and its node. It is not written anywhere.
type memory struct {
	// stepObservedAt and unreported are those of lifecycle.Observation.
	stepObservedAt, unreported time.Time
	// deletedSince is since when pods are being deleted: see stepClock.
	deletedSince map[types.UID]time.Time
	// startAccepted is when the cloud last accepted a start of the node.
	startAccepted time.Time
	// returnTo is the type that the instance of a standby node is to be made; "" for none.
	returnTo string
	// reservation is what its instance is to be set to; nil for none.
	reservation *v1alpha1.CapacityReservation
	// fallback is the type of a starting instance that is of a fallback type; "" for any other.
	fallback   string
	disruption plan.Disruption
	// claims is the number of claims on the node.
	claims int
	// pending are the pods that wait for an instance of the pool.
	pending []*corev1.Pod
	// daemons are the cluster's DaemonSets, for the nodes that pending pods may need.
	daemons []*fit.Daemon
}

// settings are the same for all instances.
type settings struct {
	namespace          decide.Namespace
	requiredDaemonSets []string
	processStart       time.Time
}

// poolNode is a Node of the pool, and its pods where they are needed.
type poolNode struct {
	node *corev1.Node
	pods []corev1.Pod
}

// gathered is an observation and what it was made from.
type gathered struct {
	raw
	lifecycle.Observation
}

// onItsWay reports whether the instance is to start or to stop now, so that the cloud will soon
// have news of it.
func (g *gathered) onItsWay() bool {
	if g.Node == nil {
		return false
	}
	stops := g.Node.State == v1alpha1.StateStopping || g.Node.State == v1alpha1.StateWarmup
	return g.Node.State == v1alpha1.StateStarting || stops && g.Node.Stop.Stands()
}

// errNotOurs: the id belongs to no instance of this cluster's pools.
var errNotOurs = errors.New("not an instance of ours")

// gather does all the reading for a decision about one instance.
func (c *Reconciler) gather(ctx context.Context, id v1alpha1.InstanceID) (raw, error) {
	r := raw{settings: settings{
		namespace: c.Namespace, requiredDaemonSets: c.RequiredDaemonSets, processStart: c.Born,
	}}
	var err error
	if r.instance, err = c.instance(ctx, id); err != nil {
		return r, err
	}
	if r.pool, err = c.poolOf(ctx, r.instance.Pool()); err != nil {
		return r, err
	}
	if r.node, r.twins, err = c.nodesOf(ctx, r.instance.ProviderID); err != nil {
		return r, err
	}
	r.stepObservedAt = c.Steps.since(id, stepOf(r.node), c.Now())
	r.unreported = c.Steps.unreported(id, r.node, c.Now())
	if r.node == nil {
		if r.instance.Gone() {
			c.forget(id)
		}
		return r, nil
	}
	if !r.instance.Registered {
		c.Inventory.Note(id, func(e *inventory.Entry) { e.Registered = true })
	}
	if r.pods, err = c.podsOn(ctx, r.node.Name); err != nil {
		return r, err
	}
	r.deletedSince = c.Steps.deletedSince(id, r.pods, c.Now())
	name := v1alpha1.NodeName(r.node.Name)
	r.disruption, r.claims = c.Disruptions.Of(r.instance.Pool(), name), len(c.State.ClaimsOn(name))
	err = c.gatherByState(ctx, &r)
	return r, err
}

// gatherByState reads what is needed in this state of the node. Most nodes are standby or running,
// and need nothing of it.
func (c *Reconciler) gatherByState(ctx context.Context, r *raw) error {
	n := observeNode(r.node, r.template())
	if n.State == v1alpha1.StateWarmup {
		r.class = c.classOf(ctx, r.pool)
	}
	if n.State == v1alpha1.StateStandby && !c.Starter.Returns(v1alpha1.NodeName(r.node.Name)) {
		r.returnTo = c.State.ReturnsTo(r.node, r.instance.Type)
	}
	if n.State == v1alpha1.StateStandby {
		r.reservation = c.Starter.Reserves(r.node, r.instance.Type, r.instance.Reservation)
	} else {
		c.Starter.ForgetReservation(v1alpha1.NodeName(r.node.Name))
	}
	if n.State == v1alpha1.StateStarting {
		r.fallback = c.State.FallbackOf(v1alpha1.NodeName(r.node.Name))
		r.startAccepted = c.Starter.AnswerOf(v1alpha1.NodeName(r.node.Name)).Accepted
	}
	var err error
	if asksForNetwork(n, r.instance.State) || asksForImages(n.State) {
		if r.daemonSets, err = pool.DaemonSets(ctx, c.Reader); err != nil {
			return err
		}
	}
	if leaves(n) {
		if r.volumes, err = c.volumesOf(ctx, r.node.Name, r.pods); err != nil {
			return err
		}
	}
	switch {
	case isLastStart(n, r.instance.State):
		r.poolNodes, err = c.nodesOfPool(ctx, r.instance.Pool())
	case promotable(n):
		err = c.gatherPromotion(ctx, r)
	}
	return err
}

// classOf returns the node class of the pool. It is read from the cache, so an error means that
// there is none, or none that is served.
func (c *Reconciler) classOf(ctx context.Context, pool *v1alpha1.NodePool) v1alpha1.NodeClass {
	if pool == nil {
		return nil
	}
	class, _, err := c.Classes.Get(ctx, pool.Spec.Template.NodeClassRef)
	if err != nil {
		return nil
	}
	return class
}

// gatherPromotion reads the pods that wait for an instance of the pool, and the nodes that they may
// go to.
func (c *Reconciler) gatherPromotion(ctx context.Context, r *raw) error {
	r.pending = c.Demand.Of(r.instance.Pool())
	if len(r.pending) == 0 {
		return nil
	}
	nodes, err := c.nodesOfPool(ctx, r.instance.Pool())
	if err != nil {
		return err
	}
	for _, n := range nodes {
		o := observeNode(n.node, r.template())
		if !promotable(o) && !openedLately(o, c.Now()) {
			continue
		}
		if n.pods, err = c.podsOn(ctx, n.node.Name); err != nil {
			return err
		}
		r.poolNodes = append(r.poolNodes, n)
	}
	r.daemons = c.State.Daemons()
	return nil
}

// instance looks the id up in the inventory. One that no sweep has shown is asked for where its
// Node shows a pool and a state of ours: a Node may outlive its instance. Of other Nodes the cloud
// is not asked: each event of each Node in the cluster would be a call.
func (c *Reconciler) instance(ctx context.Context, id v1alpha1.InstanceID) (inventory.Entry, error) {
	if e, ok := c.Inventory.Get(id); ok {
		if e.Pool() == "" {
			return c.restorePool(ctx, e)
		}
		return e, nil
	}
	n, err := c.labelled(ctx, id)
	if err != nil {
		return inventory.Entry{}, err
	}
	if n == nil {
		c.Inventory.IsForeign(id, false)
		return inventory.Entry{}, errNotOurs
	}
	asked := c.Now()
	if regional, ok := c.Cloud.(provider.Locator); ok {
		regional.Locate(string(id), n.Spec.ProviderID)
	}
	instance, err := c.Cloud.GetInstance(ctx, string(id))
	if err == nil {
		if instance, err = c.restoreTags(ctx, n, instance); err != nil {
			return inventory.Entry{}, err
		}
	}
	c.Inventory.IsForeign(id, err == nil && !c.Owner.Owns(instance))
	switch {
	case err == nil && c.Owner.Owns(instance):
		return inventory.Entry{Instance: *instance, Seen: asked}, nil
	case err == nil:
		return inventory.Entry{}, errNotOurs
	case !provider.IsNotFound(err):
		return inventory.Entry{}, err
	}
	// It stands in for an instance that the cloud does not know any more.
	return inventory.Entry{Instance: provider.Instance{
		ID: id, State: provider.InstanceTerminated, ProviderID: n.Spec.ProviderID,
		Tags: map[string]string{v1alpha1.LabelPool: n.Labels[v1alpha1.LabelPool]},
	}, Seen: asked, ConfirmedGone: true, Absent: true}, nil
}

// labelled finds the Node of which managedInstance says that it is the instance's; nil if there is
// none. By an index, because each event of each Node of the cluster leads here.
func (c *Reconciler) labelled(ctx context.Context, id v1alpha1.InstanceID) (*corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexManaged: string(id)}); err != nil ||
		len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

func (c *Reconciler) poolOf(ctx context.Context, name v1alpha1.PoolName) (*v1alpha1.NodePool, error) {
	pool := &v1alpha1.NodePool{}
	err := c.Reader.Get(ctx, client.ObjectKey{Name: string(name)}, pool)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pool, err
}

// nodesOfPool lists the Nodes of the pool, without their pods.
func (c *Reconciler) nodesOfPool(ctx context.Context, name v1alpha1.PoolName) ([]poolNode, error) {
	list := &corev1.NodeList{}
	if err := c.Reader.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: string(name)}); err != nil {
		return nil, err
	}
	nodes := make([]poolNode, len(list.Items))
	for i := range list.Items {
		nodes[i].node = &list.Items[i]
	}
	return nodes, nil
}

// podsOn lists the pods that are bound or nominated to the node.
func (c *Reconciler) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexPodNode: node}); err != nil {
		return nil, err
	}
	return list.Items, nil
}
