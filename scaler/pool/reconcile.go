// Package pool keeps each NodePool at its size: it launches and disrupts nodes, and reports the
// status.
package pool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/start"
)

const (
	// poolWorkers: a launch may take seconds, so one pool must not wait for another's.
	poolWorkers = 8
	// LaunchesAtOnce bounds one pool's launches under way.
	LaunchesAtOnce = 10
	// gathering is how long changes of a pool's Nodes are gathered before the pool is reconciled. The
	// cost of that grows with the pool's nodes, and in a burst each of them changes several times
	// while starts wait for the processor. Nothing that a pool decides is more urgent.
	gathering = 200 * time.Millisecond
	// launchRetry is how soon a launch is tried again for which some zone had no capacity; the
	// provider knows which.
	launchRetry = 5 * time.Second
)

// Reconciler keeps each NodePool at its size, reports its status, and empties it when it is
// deleted. It runs on the leader.
type Reconciler struct {
	Client      client.Client
	Cloud       provider.CloudProvider
	Owner       inventory.Owner
	Launcher    nodeclass.Launcher
	Classes     nodeclass.Kinds
	Events      events.EventRecorder
	Metrics     *metrics.Metrics
	Now         func() time.Time
	Inventory   *inventory.Inventory
	Warmups     *WarmupFailures
	Starts      *StartTimes
	State       *cluster.State
	Demand      *pending.Demand
	Disruptions *Disruptions
	Poke        func()
	launches    launches
	// unstartable are the standby nodes that a person keeps from starting.
	unstartable unstartable
	// LaunchesAtOnce bounds one pool's launches under way.
	LaunchesAtOnce int
	// LookAgain has a pending pod reconciled again: another pool may serve it.
	LookAgain func(pod client.ObjectKey)
	// Wake queues one instance again: its pool has changed.
	Wake func(ctx context.Context, id v1alpha1.InstanceID)
	// Namespace is where the pods are that pull images.
	Namespace decide.Namespace
	// RequiredDaemonSets are the namespaces whose DaemonSets' images are required.
	RequiredDaemonSets []string
}

// Reconcile brings one pool closer to its spec.
func (c *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	return conflict.Retry(c.step(ctx, req))
}

// snapshot is what one reconcile of a pool goes by.
type snapshot struct {
	pool   *v1alpha1.NodePool
	nodes  []corev1.Node
	slots  slots
	images poolImages
}

// step is one reconcile of a pool, in five phases.
func (c *Reconciler) step(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	// 1. The pool itself: before the first sweep nothing is known of it, and a deleted one is emptied.
	pool := &v1alpha1.NodePool{}
	if err := c.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.Inventory.LastSweep().IsZero() {
		return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, c.reportRegion(ctx, pool)
	}
	if pool.DeletionTimestamp != nil {
		return c.empty(ctx, pool)
	}
	if err := c.addFinalizer(ctx, pool); err != nil {
		return ctrl.Result{}, err
	}
	c.wakeIfPausedAnew(ctx, pool)
	// 2. The snapshot: its Nodes, launch slots and images.
	s, err := c.snapshot(ctx, pool)
	if err != nil {
		return ctrl.Result{}, err
	}
	// 3. Disruptions. The error is returned last: a Node that cannot be written to keeps nothing from
	// being launched.
	disruptErr := c.recycle(ctx, pool, s.nodes, s.images)
	// 4. Launches: none while the pool is paused, or its region does not answer.
	held := c.held(ctx, pool)
	var launched launchResult
	if !held {
		if launched, err = c.replenish(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	// 5. The report. The launches of a moment ago are instances now. A condition says why a launch
	// failed; an error would only be logged too.
	cond := c.imagesCondition(ctx, pool, s.images)
	err = c.report(ctx, pool, c.count(pool, s.nodes), launched.err, &cond)
	if held {
		// A pool without instances is in no sweep.
		return ctrl.Result{RequeueAfter: inventory.SweepEvery}, errors.Join(conflict.Ignore(err), disruptErr)
	}
	if err := cmp.Or(err, disruptErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: c.nextLook(pool, launched.slots, launched.again)}, nil
}

// addFinalizer writes the pool's finalizer where it is missing. The reconcile goes on at once: a
// finalizer does not change the generation, so this write brings no event that would lead back
// here.
func (c *Reconciler) addFinalizer(ctx context.Context, pool *v1alpha1.NodePool) error {
	before := pool.DeepCopy()
	if !controllerutil.AddFinalizer(pool, v1alpha1.FinalizerNodePool) {
		return nil
	}
	return c.writeFinalizers(ctx, pool, before)
}

// snapshot reads what the reconcile goes by, and drops from memory what has ended since the last
// one.
func (c *Reconciler) snapshot(ctx context.Context, pool *v1alpha1.NodePool) (snapshot, error) {
	list := &corev1.NodeList{}
	if err := c.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return snapshot{}, err
	}
	c.Inventory.Settle(v1alpha1.PoolName(pool.Name), list.Items)
	c.unstartable.look(pool, list.Items, c.Now())
	s := snapshot{pool: pool, nodes: list.Items, slots: c.settle(pool)}
	var err error
	s.images, err = c.images(ctx, pool, list.Items)
	return s, err
}

// nextLook is when the pool is to be reconciled again though nothing happens. again is when
// launches go on, 0 for never.
func (c *Reconciler) nextLook(pool *v1alpha1.NodePool, slots slots, again time.Duration) time.Duration {
	if again > 0 {
		return again
	}
	if until, limited := c.State.StartsLimited(v1alpha1.PoolName(pool.Name), c.Now()); limited {
		return until.Sub(c.Now()) + time.Second
	}
	if len(slots.Pending) > 0 {
		return slotRetention // an instance that ended before any sweep showed it brings no event
	}
	return 0
}

// settle drops launch slots whose instance has long been known, and those of launches that were
// refused. It decides from memory and writes with reserve.
func (c *Reconciler) settle(pool *v1alpha1.NodePool) slots {
	all := c.numbers(pool)
	seen, interrupted := c.Inventory.SlotsOf(v1alpha1.PoolName(pool.Name), pool.UID)
	unseen := c.Inventory.UnseenSlots(v1alpha1.PoolName(pool.Name), pool.UID)
	s := c.launches.settle(pool.UID, all, seen, unseen, interrupted, c.Now())
	if s.cold > 0 {
		c.Metrics.Scaleup.WithLabelValues(pool.Name, string(start.TriggerCold)).Add(float64(s.cold))
	}
	return s
}

// numbers reads the pool's launch numbers. Numbers must not be used twice. Where the annotation is
// garbled, lost or that of an older copy of the pool (kubectl replace), they go on from the time,
// which no launch can have had.
func (c *Reconciler) numbers(pool *v1alpha1.NodePool) plan.Slots {
	text := pool.Annotations[v1alpha1.AnnotationLaunches]
	all, err := plan.ParseSlots(text)
	if err != nil {
		all = plan.Slots{}
	}
	used := max(c.launches.last(pool.UID), c.Inventory.LastSlot(v1alpha1.PoolName(pool.Name), pool.UID))
	// The status outlives kubectl replace. A pool that has none launched its first instances a
	// moment ago at most.
	lost := text == "" && len(pool.Status.Conditions) > 0
	if err != nil || lost || all.Next <= used {
		all.Next = max(used+1, c.Now().UnixMilli())
		return all
	}
	c.launches.used(pool.UID, all.Next-1)
	return all
}

// restoreTags writes the tags again that were removed from an instance before its Node could tell
// whose it is. Without them no sweep shows it as the pool's, and its launch stays open forever; the
// token of the launch says that it is ours. Tags that name another owner are left.
func (c *Reconciler) restoreTags(ctx context.Context, pool *v1alpha1.NodePool, id v1alpha1.InstanceID) error {
	instance, err := c.Cloud.GetInstance(ctx, string(id))
	if provider.IsNotFound(err) {
		return nil // the cloud's reads lag
	}
	if err != nil {
		return err
	}
	_, _, err = c.tagger(ctx).Restore(ctx, instance, v1alpha1.PoolName(pool.Name))
	return err
}

// LaunchRequest is what the cloud is asked for in a slot of the pool.
func (c *Reconciler) LaunchRequest(pool *v1alpha1.NodePool, slot int64) provider.LaunchRequest {
	token := sha256.Sum256([]byte(string(pool.UID) + "/" + strconv.FormatInt(slot, 10)))
	tags := c.Owner.Tags(v1alpha1.PoolName(pool.Name))
	tags[v1alpha1.LabelState] = string(v1alpha1.StateWarmup)
	tags[inventory.TagLaunch] = strconv.FormatInt(slot, 10) + "." + string(pool.UID)
	tags[v1alpha1.AnnotationTemplateHash] = pool.Spec.Template.Hash()
	return provider.LaunchRequest{
		ClientToken:  hex.EncodeToString(token[:16]),
		Number:       slot,
		Tags:         tags,
		Registration: provider.RegistrationOf(pool),
	}
}

// count counts the pool's instances by the state of their Nodes; one without a Node of a known
// state is warming up. One that the cloud does not know counts as long as its Node stands.
func (c *Reconciler) count(pool *v1alpha1.NodePool, nodes []corev1.Node) map[v1alpha1.NodeState]int32 {
	byID := inventory.ByProviderID(nodes)
	count := map[v1alpha1.NodeState]int32{}
	for _, e := range c.Inventory.Of(v1alpha1.PoolName(pool.Name)) {
		count[inventory.StateOf(e, byID[e.ProviderID])]++
	}
	for _, n := range byID {
		state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
		if state != "" && c.Inventory.Lacks(inventory.InstanceOf(n)) {
			count[state]++
		}
	}
	return count
}

func total(count map[v1alpha1.NodeState]int32) int32 {
	var sum int32
	for _, n := range maps.All(count) {
		sum += n
	}
	return sum
}

// empty lets the nodes of a deleted pool go, and lets the pool go when a listing of its own shows
// none.
func (c *Reconciler) empty(ctx context.Context, pool *v1alpha1.NodePool) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(pool, v1alpha1.FinalizerNodePool) {
		return ctrl.Result{}, nil
	}
	again := ctrl.Result{RequeueAfter: 2 * time.Second}
	left := c.Inventory.Of(v1alpha1.PoolName(pool.Name))
	for _, e := range left {
		c.Wake(ctx, e.ID)
	}
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return again, err
	}
	count := c.count(pool, nodes.Items)
	if err := c.report(ctx, pool, count, nil, nil); err != nil {
		return again, conflict.Ignore(err)
	}
	if pool.IsPaused() { // its end waits; an event of the pool comes when it goes on
		return ctrl.Result{}, nil
	}
	orphans := managed(nodes.Items)
	for _, id := range orphans { // no sweep brings an instance that is gone, so nothing else may look at its Node
		c.Wake(ctx, id)
	}
	if len(left) > 0 || len(orphans) > 0 {
		return again, nil
	}
	listed, err := c.listed(ctx, pool)
	if err != nil {
		return again, err
	}
	if listed {
		c.Poke() // the next sweep brings the instance to the inventory, and the lifecycle terminates it
		return again, nil
	}
	// A launch that is still open may have happened and not show in any listing yet.
	if wait := pool.DeletionTimestamp.Add(unseenFor(pool)).Sub(c.Now()); wait > 0 && len(c.settle(pool).open) > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	before := pool.DeepCopy()
	controllerutil.RemoveFinalizer(pool, v1alpha1.FinalizerNodePool)
	c.Metrics.Forget(v1alpha1.PoolName(pool.Name))
	c.launches.forget(pool.UID)
	c.Warmups.forget(v1alpha1.PoolName(pool.Name))
	c.Starts.forget(v1alpha1.PoolName(pool.Name))
	return ctrl.Result{}, client.IgnoreNotFound(c.writeFinalizers(ctx, pool, before))
}

// listed reports whether the cloud lists an instance of the pool that is not terminated.
func (c *Reconciler) listed(ctx context.Context, pool *v1alpha1.NodePool) (bool, error) {
	list, err := c.Cloud.ListInstances(ctx, map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: c.Owner.Cluster, v1alpha1.LabelPool: pool.Name,
	})
	if err != nil && !c.wholeFor(ctx, pool, err) {
		return false, err
	}
	return slices.ContainsFunc(list, func(i *provider.Instance) bool {
		return i.State != provider.InstanceTerminated && !c.Owner.Foreign(i, pool)
	}), nil
}

// writeFinalizers sends the finalizers alone. An update would send the whole spec as Go encodes it
// (60m as 1h0m0s) and so take fields over from the manager that applied them, and it would need
// admission while our own webhook is down.
func (c *Reconciler) writeFinalizers(ctx context.Context, pool, before *v1alpha1.NodePool) error {
	return c.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// managed lists the instances of the Nodes that show a state of ours. A Node may outlive its
// instance by a moment: its pool stays until the lifecycle has deleted it, so that it is
// known whose it is.
func managed(nodes []corev1.Node) []v1alpha1.InstanceID {
	var out []v1alpha1.InstanceID
	for i := range nodes {
		if nodes[i].Labels[v1alpha1.LabelState] != "" {
			out = append(out, inventory.InstanceOf(&nodes[i]))
		}
	}
	return out
}

// +kubebuilder:rbac:groups=stratos.sh,resources=nodepools,verbs=list;watch;patch
// +kubebuilder:rbac:groups=stratos.sh,resources=nodepools/status,verbs=update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// SetupWithManager registers the controller: it listens to pools, to the Nodes of pools, to classes
// and to the sweep.
func (c *Reconciler) SetupWithManager(
	mgr manager.Manager, swept <-chan event.TypedGenericEvent[v1alpha1.PoolName],
) error {
	toPool := func(name string) []reconcile.Request {
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("nodepool").
		For(&v1alpha1.NodePool{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
			predicate.AnnotationChangedPredicate{}))).
		Watches(
			&corev1.Node{},
			inBatches(func(n client.Object) []reconcile.Request { return toPool(n.GetLabels()[v1alpha1.LabelPool]) }),
			builder.WithPredicates(predicate.LabelChangedPredicate{}),
		).
		Watches(&appsv1.DaemonSet{}, handler.EnqueueRequestsFromMapFunc(c.byDaemonSet),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.TypedChannel(swept, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, name v1alpha1.PoolName) []reconcile.Request { return toPool(string(name)) }))).
		WithOptions(controller.Options{MaxConcurrentReconciles: poolWorkers})
	for _, kind := range c.Classes.Served {
		b = b.Watches(kind.New(), handler.EnqueueRequestsFromMapFunc(c.byClass(kind)))
	}
	return b.Complete(c)
}

// inBatches enqueues what the events lead to once, gathering after the first of them.
func inBatches(requests func(client.Object) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, r := range requests(o) {
				q.AddAfter(r, gathering)
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add(q, e.Object) },
	}
}

func (c *Reconciler) byClass(kind nodeclass.Kind) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		pools, err := nodeclass.UsersOf(ctx, c.Client, v1alpha1.NodeClassRef{Kind: kind.Name, Name: class.GetName()})
		if err != nil {
			return nil // the sweep brings every pool back within seconds
		}
		var out []reconcile.Request
		for _, name := range pools {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
		return out
	}
}

// launchReason words a failed launch for a condition.
func launchReason(err error) v1alpha1.Reason {
	switch {
	case provider.IsInsufficientCapacity(err):
		return v1alpha1.ReasonInsufficientCapacity
	case apierrors.IsNotFound(err):
		return v1alpha1.ReasonNodeClassNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.ReasonLaunchTimeout
	}
	return v1alpha1.ReasonLaunchFailed
}

func (c *Reconciler) tagger(ctx context.Context) inventory.Tagger {
	return inventory.NewTagger(ctx, c.Cloud, c.Owner, c.Inventory)
}
