// Package pending looks at the pods that wait: it claims room for those that no extender serves,
// and says why a pod gets no node.
package pending

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/start"
)

const (
	// explainAfter gives the extender, maybe in another replica, the time to claim a node for the pod
	// and to publish it.
	explainAfter = 2 * time.Second
	// sayAgain is how often the same is said of a pending pod: the API server keeps events for an
	// hour.
	sayAgain = 30 * time.Minute
	// explainAgain is how soon the reason of a pod that is still pending is checked again.
	explainAgain = time.Minute
	// viewAgain is how soon a pod is looked at that came before the cluster state was there.
	viewAgain = 100 * time.Millisecond
	// pendingWorkers: a reconcile reads caches only.
	pendingWorkers = 4
)

// podQueue is where a controller's work comes from.
type podQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podKey names a pod, not its uid: a pod that is gone is known by its name only.
type podKey = types.NamespacedName

// Reconciler reconciles pending pods. For those of a scheduler without the extender it claims room
// and starts nodes, at once. Those of a scheduler with it are the extender's: a pod that the
// scheduler asks no extender about fits no standby node, so none is started for it. Either kind is
// told why, where no node is on its way, and counts as demand for new instances. It runs on the
// leader.
type Reconciler struct {
	Reader client.Reader
	Writer client.Writer
	Placer *start.Placer
	State  *cluster.State
	// Classes say into which zones a pool can launch.
	Classes nodeclass.Kinds
	// Ready says why the cluster state is not whole yet.
	Ready  func() error
	Demand *Demand
	Events events.EventRecorder
	// Schedulers are those with the extender.
	Schedulers []string
	Now        func() time.Time
	// CheckNomination has a nomination of ours cleared or moved that has lost its claim, or written
	// again that the scheduler took away too early.
	CheckNomination func(pod types.UID)
	// PoolChanged queues a pool again: the demand for it has changed.
	PoolChanged func(ctx context.Context, pool v1alpha1.PoolName)

	// queue is the controller's, once it runs.
	queue atomic.Pointer[podQueue]
	// mu guards the fields below.
	mu sync.Mutex
	// recalled are the pods that the scheduler was made to ask about again, and when the last of them
	// was.
	recalled   map[podKey]types.UID
	recalledAt time.Time
	// told is what was last said of a pod, so that an event is written when the reason changes and
	// every sayAgain, not at every look.
	told map[podKey]said
	// lookAt is when the pods that were told something are looked at because a node became standby.
	lookAt time.Time
	// warned is when which pod of the name had an event about its spread. It ends with the pod.
	warned map[podKey]said
	// waits are the pods that are pending.
	waits map[podKey]wait
	// failing are the pods over which their scheduler fails, and its name; errors counts them.
	failing map[podKey]string
	Errors  *prometheus.GaugeVec
}

// New empties the memory of a reconciler that is made of its fields.
func New(c *Reconciler) *Reconciler {
	c.recalled, c.told, c.waits = map[podKey]types.UID{}, map[podKey]said{}, map[podKey]wait{}
	c.failing, c.warned = map[podKey]string{}, map[podKey]said{}
	return c
}

// Reconcile looks at one pod.
func (c *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	if c.Ready() != nil { // with half a cluster in view no node has room, and an instance would be launched for nothing
		return ctrl.Result{RequeueAfter: viewAgain}, nil //nolint:nilerr // not ready yet is no error
	}
	pod := &corev1.Pod{}
	if err := c.Reader.Get(ctx, req.NamespacedName, pod); err != nil {
		c.fails(req.NamespacedName, "")
		c.Demand.leave(req.NamespacedName)
		c.served(ctx, req.NamespacedName)
		c.mu.Lock()
		delete(c.warned, req.NamespacedName)
		c.mu.Unlock()
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := c.serve(ctx, req, pod)
	c.followNomination(pod) // afterwards, because the pod may have got a claim anew
	return result, err
}

// serve claims room for the pod, has a node started or an instance launched for it, or says why it
// gets none.
func (c *Reconciler) serve(ctx context.Context, req reconcile.Request, pod *corev1.Pod) (ctrl.Result, error) {
	verdict := scheduled(pod)
	c.fails(req.NamespacedName, failing(pod, verdict))
	if verdict != nil {
		if err := c.warnSpread(ctx, pod); err != nil {
			return ctrl.Result{}, err
		}
	}
	if verdict == nil || len(pod.Spec.ResourceClaims) > 0 {
		c.measure(pod)
		c.served(ctx, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if _, claimed := c.State.ClaimOf(pod.UID); claimed {
		c.Demand.leave(req.NamespacedName)
		c.served(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: explainAgain}, nil // a claim may end without any event of the pod
	}
	if verdict.Reason == corev1.PodReasonSchedulerError {
		c.say(pod, v1alpha1.ReasonStandbyUnavailable, "the scheduler fails: "+verdict.Message)
		return ctrl.Result{}, nil
	}
	if !slices.Contains(c.Schedulers, pod.Spec.SchedulerName) {
		placed := c.Placer.Place(pod)
		if placed.Claim != nil {
			c.Demand.leave(req.NamespacedName)
			c.served(ctx, req.NamespacedName)
			return ctrl.Result{RequeueAfter: explainAgain}, nil
		}
		if placed.Kind == decide.Pass && c.firstPass(pod) {
			// A node that has come to run in between takes the pod, and its scheduler is about to see that:
			// nothing is to be launched.
			return ctrl.Result{RequeueAfter: explainAfter}, nil
		}
	} else if left := c.explainIn(pod, verdict); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	again, err := c.unserved(ctx, pod)
	return ctrl.Result{RequeueAfter: again}, err
}

// followNomination has a nomination of ours checked that may be without its claim, or lost.
func (c *Reconciler) followNomination(pod *corev1.Pod) {
	claim, _ := c.State.ClaimOf(pod.UID)
	lost := !claim.NominatedAt.IsZero() && pod.Status.NominatedNodeName == ""
	if lost || decide.OwnNomination(pod) != "" {
		c.CheckNomination(pod.UID)
	}
}

// forgotten returns a standby node that would take a pod of the extender's which has no claim. The
// replica that made its claim may have died before it published that, or the node backed off when
// the scheduler asked, which would not retry the pod for minutes. It does so once for a pod: where
// the scheduler asks again and nothing starts, it knows a reason that we do not know.
func (c *Reconciler) forgotten(pod *corev1.Pod) (v1alpha1.NodeName, bool) {
	if !slices.Contains(c.Schedulers, pod.Spec.SchedulerName) || decide.MayNotStart(pod) != "" {
		return "", false
	}
	key := client.ObjectKeyFromObject(pod)
	c.mu.Lock()
	known := c.recalled[key] == pod.UID
	c.mu.Unlock()
	if known {
		return "", false
	}
	node, ok := c.Placer.Startable(pod)
	if ok { // a node that backs off may be startable later
		c.mu.Lock()
		c.recalled[key] = pod.UID
		c.mu.Unlock()
	}
	return node, ok
}

// recall touches the Node: any event of one has the scheduler ask about all its pending pods again.
// So one touch does for the many pods that were forgotten at the same time.
func (c *Reconciler) recall(ctx context.Context, node v1alpha1.NodeName) error {
	now := c.Now()
	c.mu.Lock()
	enough := now.Sub(c.recalledAt) < time.Second
	if !enough {
		c.recalledAt = now
	}
	c.mu.Unlock()
	if enough {
		return nil
	}
	return cluster.Nudge(ctx, c.Writer, node, now)
}

// scheduled returns what the scheduler says of a pod that it cannot place; nil where it is placed,
// nominated by others or not tried yet.
func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || decide.NominatedNode(pod) != "" {
		return nil
	}
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse &&
			(cond.Reason == corev1.PodReasonUnschedulable || cond.Reason == corev1.PodReasonSchedulerError) {
			return cond
		}
	}
	return nil
}

// failing is the name of the scheduler that fails over the pod, "" where none does. A pod that has
// a claim counts too: its node may run, and no scheduler binds it.
func failing(pod *corev1.Pod, verdict *corev1.PodCondition) string {
	if verdict == nil || verdict.Reason != corev1.PodReasonSchedulerError {
		return ""
	}
	return pod.Spec.SchedulerName
}

// fails counts the pod for the scheduler that fails over it, "" for none.
func (c *Reconciler) fails(pod podKey, scheduler string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failing[pod]
	if was == scheduler {
		return
	}
	delete(c.failing, pod)
	if was != "" {
		c.Errors.WithLabelValues(was).Dec()
	}
	if scheduler != "" {
		c.failing[pod] = scheduler
		c.Errors.WithLabelValues(scheduler).Inc()
	}
}

// unserved counts the pod as demand for a new instance where one could serve it, and reports that,
// or why not. It returns when to reconcile again.
func (c *Reconciler) unserved(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	found := c.why(ctx, pod)
	if found.why == "" {
		return explainAfter, nil // a Node names the pod still, and no event of the pod says when that ends
	}
	if held, until := c.Placer.HeldBack(pod); held != "" && decide.MayNotStart(pod) == "" && !found.coming {
		c.refuse(ctx, pod, held)
		return c.againAt(until), nil
	}
	if node, ok := c.forgotten(pod); ok {
		return explainAfter, c.recall(ctx, node)
	}
	if found.pool == "" {
		c.refuse(ctx, pod, found.why)
		return c.againAt(found.startable), nil
	}
	if c.Demand.Add(pod, found.pool, found.zones...) {
		c.PoolChanged(ctx, found.pool)
	}
	if !found.coming { // else it has an event about its launch
		c.say(pod, v1alpha1.ReasonColdLaunch,
			found.why+": launching a new instance in pool "+string(found.pool)+inWords(found.zones))
	}
	return c.againAt(found.startable), nil
}

// againAt is how soon a pod is reconciled again that may get a standby node at the given time, zero
// where no time is known. No more than explainAgain later, because that may change; and never 0,
// which would mean not again.
func (c *Reconciler) againAt(startable time.Time) time.Duration {
	if startable.IsZero() {
		return explainAgain
	}
	return min(explainAgain, max(viewAgain, startable.Sub(c.Now())))
}

// refuse ends the pod's demand and says why. What was said stays remembered, or each look would say
// it again.
func (c *Reconciler) refuse(ctx context.Context, pod *corev1.Pod, why string) {
	c.withdraw(ctx, client.ObjectKeyFromObject(pod))
	c.say(pod, v1alpha1.ReasonStandbyUnavailable, why)
}

// measure tells how long the pod waited for a node that opened at the end of its warm-up. A pod
// with a claim is measured by that.
func (c *Reconciler) measure(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return // nominated: it is bound in a moment
	}
	if pool, path, ok := c.Demand.settle(pod, c.Now()); ok {
		c.State.Served(decide.Claim{Pod: pod.UID, Node: v1alpha1.NodeName(pod.Spec.NodeName), Pool: pool, Path: path}, pod)
	}
}

// served forgets a pod that no longer needs anything.
func (c *Reconciler) served(ctx context.Context, pod podKey) {
	c.mu.Lock()
	delete(c.told, pod)
	delete(c.recalled, pod)
	delete(c.waits, pod)
	c.mu.Unlock()
	c.withdraw(ctx, pod)
}

// withdraw ends the pod's demand for a new instance.
func (c *Reconciler) withdraw(ctx context.Context, pod podKey) {
	if pool, was := c.Demand.Remove(pod); was {
		c.PoolChanged(ctx, pool)
	}
}

func (c *Reconciler) say(pod *corev1.Pod, reason v1alpha1.Reason, why string) {
	if !c.news(client.ObjectKeyFromObject(pod), string(pod.UID)+" "+why) {
		return
	}
	kind := corev1.EventTypeWarning
	if reason == v1alpha1.ReasonColdLaunch {
		kind = corev1.EventTypeNormal
	}
	c.Events.Eventf(pod, nil, kind, string(reason), "Explain", "%s", why)
}

// said is what an event said of a pod, and when.
type said struct {
	why string
	at  time.Time
}

// news reports whether that was not said of the pod yet, or not for sayAgain.
func (c *Reconciler) news(pod podKey, why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if last := c.told[pod]; last.why == why && now.Sub(last.at) < sayAgain {
		return false
	}
	c.told[pod] = said{why: why, at: now}
	return true
}

// finding is why a pod waits.
type finding struct {
	// why no standby node starts for the pod; empty where another replica has claimed one.
	why string
	// pool could serve it with a new instance; empty if none could.
	pool v1alpha1.PoolName
	// zones are those in which that instance would help; none means any.
	zones []string
	// coming: the pool has launched for the pod already, and its instances are warming up.
	coming bool
	// startable is when the first standby node that would take the pod ends its backoff; zero where
	// none backs off.
	startable time.Time
}

// why reads what the cluster state has computed of pools and nodes: many pods may be pending, and
// each is reconciled at least once a minute.
func (c *Reconciler) why(ctx context.Context, pod *corev1.Pod) finding {
	if why := decide.MayNotStart(pod); why != "" {
		return finding{why: why}
	}
	if c.State.IsPublished(pod.UID) {
		return finding{}
	}
	pools := c.State.Pools()
	if len(pools) == 0 {
		return finding{why: "there is no NodePool"}
	}
	return c.choose(ctx, pod, pools)
}

// choose picks the pool that is to launch for the pod: the one that has done so, as long as its
// instances are warming up, else the heaviest that could, and of those whose launches fail one only
// where no other could. Without the first, a pool that stands at its poolSize by that very launch
// would no longer wait for it: its node would be stopped when it is warm and started again for the
// pod, or a second pool would launch as well.
func (c *Reconciler) choose(ctx context.Context, pod *corev1.Pod, pools []cluster.PoolNodes) finding {
	judge, launched, now := c.State.PodFit(pod), c.Demand.poolOf(pod), c.Now()
	judgedAll := make([]assessment, 0, len(pools))
	var cold, coming *v1alpha1.NodePool
	works := func(pool *v1alpha1.NodePool) bool { return c.Demand.mayLaunch(v1alpha1.PoolName(pool.Name), now) }
	zones := map[*v1alpha1.NodePool][]string{}
	for i := range pools {
		pool := pools[i].Pool
		judged := assess(judge, pools[i], OfferOf(ctx, c.Classes, pool, c.State), c.backsOff)
		zones[pool] = judged.zones
		judgedAll = append(judgedAll, judged)
		if judged.launch && (cold == nil || works(pool) && !works(cold) ||
			works(pool) == works(cold) && pool.Spec.WeightOrDefault() > cold.Spec.WeightOrDefault()) {
			cold = pool
		}
		if v1alpha1.PoolName(pool.Name) == launched && judged.coming {
			coming = pool
		}
	}
	found := finding{why: inOrder(judgedAll), coming: coming != nil, startable: startable(judgedAll)}
	if at := cmp.Or(coming, cold); at != nil {
		found.pool, found.zones = v1alpha1.PoolName(at.Name), zones[at]
	}
	return found
}

// backsOff is until when the standby node is not started, because its last start failed or its zone
// has no capacity for its type; zero where it may be.
func (c *Reconciler) backsOff(n *decide.Node) backOff {
	now := c.Now()
	offering, until := c.State.NodeOffering(n, now)
	switch {
	case n.UnavailableUntil.After(now) && n.UnavailableUntil.After(until):
		if until.IsZero() {
			offering = decide.Offering{}
		}
		return backOff{n.UnavailableUntil, offering}
	case until.IsZero():
		return backOff{}
	}
	return backOff{until, offering}
}

// inWords names the zones to which a launch is bound.
func inWords(zones []string) string {
	if len(zones) == 0 {
		return ""
	}
	return ", zone " + strings.Join(zones, " or ")
}

// LookAgain has a pod looked at because its volumes have changed. It never blocks: on a replica
// that is not the leader it would never be read.
func (c *Reconciler) LookAgain(pod podKey) {
	if q := c.queue.Load(); q != nil {
		(*q).Add(reconcile.Request{NamespacedName: pod})
	}
}

// LookAgainIfNominated has the pods of ended claims looked at that Stratos has nominated: the
// nomination is without a claim now, or its claim has moved.
func (c *Reconciler) LookAgainIfNominated(ended []decide.Claim) {
	for i := range ended {
		if pod := c.State.PendingPod(ended[i].Pod); pod != nil && decide.OwnNomination(pod) != "" {
			c.LookAgain(client.ObjectKeyFromObject(pod))
		}
	}
}

// LookAgainAtLost is LookAgainIfNominated for claims whose nodes will not run after all. It also
// has their other pods looked at in a moment: no scheduler may say anything new of them, and where
// no other node starts for them by then, an instance is to be launched.
func (c *Reconciler) LookAgainAtLost(ended []decide.Claim) {
	c.LookAgainIfNominated(ended)
	for i := range ended {
		if ref := ended[i].Ref; !ended[i].ToCome() {
			c.LookAgainLater(podKey{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
}

// LookAgainAtStandby has the pods looked at in a moment that were told why they wait: a node is
// standby now, and a scheduler without the extender says nothing new of them for that. Nodes that
// become standby within that moment are one look. It never blocks.
func (c *Reconciler) LookAgainAtStandby() {
	now := c.Now()
	c.mu.Lock()
	due := c.lookAt.After(now)
	var pods []podKey
	if !due {
		c.lookAt = now.Add(explainAfter)
		pods = slices.Collect(maps.Keys(c.told))
	}
	c.mu.Unlock()
	for _, pod := range pods {
		c.LookAgainLater(pod)
	}
}

// LookAgainLater has a pod looked at whose claim another replica is about to move, or was, if that
// replica is gone. It never blocks.
func (c *Reconciler) LookAgainLater(pod podKey) {
	if q := c.queue.Load(); q != nil {
		(*q).AddAfter(reconcile.Request{NamespacedName: pod}, explainAfter)
	}
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// SetupWithManager registers the controller. It sees all pods: what is remembered of one has to be
// forgotten when it is placed.
func (c *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("pending").For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: pendingWorkers}).
		WatchesRawSource(source.Func(func(_ context.Context, q podQueue) error {
			c.queue.Store(&q)
			return nil
		})).
		Complete(c)
}
