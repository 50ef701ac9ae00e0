// Package node takes every instance and its Node through their life: gather what is known of it,
// observe, decide by package lifecycle, act.
package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/start"
)

const (
	// nodeWorkers: an instance's step is one or two short calls, never a wait, so many can be under
	// way and no pool's slow node holds up another's.
	nodeWorkers = 32
	// nodeCalls is how many of the workers may be in steps that call the cloud: one that hangs holds
	// up no other step.
	nodeCalls = 24
	// callAgain is when a step is tried again that found too many others calling.
	callAgain = time.Second
)

// Reconciler takes every instance and its Node through their life: gather, decide, act. It runs on
// the leader.
type Reconciler struct {
	Reader client.Reader // the cache
	Live   client.Reader // the API server itself
	Client client.Client
	Cloud  provider.CloudProvider
	Owner  inventory.Owner
	// Namespace is where the pods go that pull images.
	Namespace decide.Namespace
	// RequiredDaemonSets are the namespaces whose DaemonSets' images are required.
	RequiredDaemonSets []string
	// Classes say who stops an instance at the end of warm-up where its pool does not.
	Classes nodeclass.Kinds
	// Tokens are revoked once the Node of an instance has registered; nil where there are none.
	Tokens  *bootstraptoken.Tokens
	State   *cluster.State
	Starter *start.Starter
	Events  events.EventRecorder
	Metrics *metrics.Metrics
	Now     func() time.Time
	// Born is when this process began: what was intended before was another's to carry out.
	Born time.Time

	Inventory   *inventory.Inventory
	Warmups     *pool.WarmupFailures
	Starts      *pool.StartTimes
	Demand      *pending.Demand
	Disruptions *pool.Disruptions
	// Steps is nil where deadlines count from what is written.
	Steps *stepClock
	// marks are those of the starts under way.
	marks startMarks
	// calling is how many steps that call the cloud are under way.
	calling atomic.Int32
	// warned are the DaemonSets that have an event about their pods on stopped nodes.
	warned pending.Warned
	// Poke makes the next sweeps come fast, after each call that changes an instance.
	Poke func()
}

// Reconcile takes one instance one step further. Each step is safe to repeat.
func (c *Reconciler) Reconcile(ctx context.Context, id v1alpha1.InstanceID) (ctrl.Result, error) {
	if c.Inventory.LastSweep().IsZero() {
		return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil // what we do not see yet is not gone
	}
	r, err := c.gather(ctx, id)
	if errors.Is(err, errNotOurs) {
		c.forget(id)
		c.Inventory.Absences.Release(id)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	now := c.Now()
	g := gathered{raw: r, Observation: observe(r, now)}
	c.marks.observe(id, g.node, &g.Observation, now)
	if g.onItsWay() { // also where another replica, or this one in an earlier life, has asked for it
		c.Poke()
	}
	if !g.Instance.Absent {
		c.Inventory.Absences.Release(id)
	}
	if err := c.deleteTwins(ctx, g); err != nil {
		return ctrl.Result{}, err
	}
	d := lifecycle.Decide(g.Observation, now)
	if d.Action == lifecycle.Wait {
		return ctrl.Result{RequeueAfter: d.After, Priority: new(0)}, errors.Join(c.repairNode(ctx, g),
			c.syncCondition(ctx, g), c.syncStateTag(ctx, g), c.syncPulls(ctx, g), c.warnDaemonSets(ctx, g))
	}
	if callsCloud(d.Action) {
		defer c.calling.Add(-1)
		if c.calling.Add(1) > nodeCalls {
			return ctrl.Result{RequeueAfter: callAgain}, nil
		}
	}
	if d.Action == lifecycle.ToRunning {
		if wait := c.Starter.BeforeOpening(ctx, v1alpha1.NodeName(g.node.Name)); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	log := logr.FromContextOrDiscard(ctx)
	log.V(1).Info("node step", "action", d.Action, "reason", d.Reason)
	err = c.act(ctx, g, d)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsConflict(err):
		// The Node is not as the cache shows it. A moment later the cache has caught up.
		return ctrl.Result{RequeueAfter: conflict.Pause}, nil
	case provider.IsRateLimit(err), provider.IsIncorrectState(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The event of our own write brings the next step; After is for steps that write nothing.
	return ctrl.Result{RequeueAfter: d.After}, nil
}

// forget drops what this process knows of the steps of an instance that is gone.
func (c *Reconciler) forget(id v1alpha1.InstanceID) {
	c.Steps.forget(id)
	c.marks.forget(id)
}

// SetupWithManager registers the controller: it listens to Nodes, to pods on them, and to the
// sweep.
func (c *Reconciler) SetupWithManager(
	mgr manager.Manager, swept <-chan event.TypedGenericEvent[v1alpha1.InstanceID],
) error {
	ctl, err := controller.NewTyped("node", mgr, controller.TypedOptions[v1alpha1.InstanceID]{
		Reconciler:              reconcile.TypedFunc[v1alpha1.InstanceID](c.Reconcile),
		MaxConcurrentReconciles: nodeWorkers,
		LogConstructor: func(id *v1alpha1.InstanceID) logr.Logger {
			log := mgr.GetLogger().WithName("node")
			if id != nil {
				log = log.WithValues("instance", *id)
			}
			return log
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[v1alpha1.InstanceID](100*time.Millisecond,
			30*time.Second),
	})
	if err != nil {
		return err
	}
	cache := mgr.GetCache()
	return errors.Join(
		ctl.Watch(source.TypedKind(cache, &corev1.Node{}, c.enqueueNode())),
		ctl.Watch(source.TypedKind(cache, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(c.InstancesOfPod))),
		ctl.Watch(source.TypedChannel(swept, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, id v1alpha1.InstanceID) []v1alpha1.InstanceID {
				return []v1alpha1.InstanceID{id}
			}))),
	)
}

// InstancesOfNode: every Node with a provider id may be one of ours; gather finds out by the id's
// instance.
func InstancesOfNode(_ context.Context, n *corev1.Node) []v1alpha1.InstanceID {
	if id := inventory.InstanceOf(n); id != "" {
		return []v1alpha1.InstanceID{id}
	}
	return nil
}

// InstancesOfPod names the instance of the node that the pod is on, or on its way to.
func (c *Reconciler) InstancesOfPod(ctx context.Context, p *corev1.Pod) []v1alpha1.InstanceID {
	name := inventory.NodeOfPod(p)
	if name == "" {
		return nil
	}
	n := &corev1.Node{}
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, n); err != nil || n.Labels[v1alpha1.LabelPool] == "" {
		return nil // a Node that is not there yet brings its own event
	}
	return InstancesOfNode(ctx, n)
}
