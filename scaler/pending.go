package scaler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/start"
)

const (
	// explainAfter gives the extender, maybe in another replica, the time to claim a node for the pod and to publish it.
	explainAfter = 2 * time.Second
	// explainAgain is how soon the reason of a pod that still waits is looked at again.
	explainAgain = time.Minute
	// pendingWorkers: a look reads caches only.
	pendingWorkers = 4
)

// podKey names a pod, not its uid: a pod that is gone is known by its name only.
type podKey = types.NamespacedName

// pending looks after the pods that wait. Those of a scheduler without the extender it promises room and starts nodes
// for, at once. Those of a scheduler with it are the extender's: a pod that the scheduler asks nobody about fits no
// standby node, so none is started for it. Either kind is told why, where no node is on its way, and counts as demand
// for new instances. It runs on the leader.
type pending struct {
	reader client.Reader
	ledger *claim.Ledger
	placer *start.Placer
	demand *demand
	events events.EventRecorder
	// schedulers are those with the extender.
	schedulers []string
	now        func() time.Time
	// poolChanged has a pool looked at again: the demand for it has changed.
	poolChanged func(ctx context.Context, pool v1alpha1.PoolName)

	// mu guards told.
	mu sync.Mutex
	// told is what was last said of a pod, so that an event is written when the reason changes, not at every look.
	told map[podKey]string
}

// Reconcile looks at one pod.
func (c *pending) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := c.reader.Get(ctx, req.NamespacedName, pod); err != nil {
		c.served(ctx, req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	verdict := scheduled(pod)
	if verdict == nil || len(pod.Spec.ResourceClaims) > 0 || c.ledger.HasClaim(pod.UID) {
		c.served(ctx, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if verdict.Reason == corev1.PodReasonSchedulerError {
		c.say(pod, v1alpha1.ReasonStandbyUnavailable, "the scheduler fails: "+verdict.Message)
		return ctrl.Result{}, nil
	}
	if !slices.Contains(c.schedulers, pod.Spec.SchedulerName) {
		if c.placer.Place(pod).Claim != nil {
			c.served(ctx, req.NamespacedName)
			return ctrl.Result{}, nil
		}
	} else if left := explainAfter - c.now().Sub(verdict.LastTransitionTime.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{RequeueAfter: explainAgain}, c.unserved(ctx, pod)
}

// scheduled returns what the scheduler says of a pod that it cannot place; nil where it is placed, nominated or not
// judged yet.
func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.NominatedNodeName != "" {
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

// unserved counts the pod as demand for a new instance where one could serve it, and says so, or why not.
func (c *pending) unserved(ctx context.Context, pod *corev1.Pod) error {
	why, pool, err := c.why(ctx, pod)
	if err != nil || why == "" {
		return err
	}
	if pool == "" {
		c.withdraw(ctx, client.ObjectKeyFromObject(pod)) // what was said stays remembered, or each look would say it again
		c.say(pod, v1alpha1.ReasonStandbyUnavailable, why)
		return nil
	}
	if c.demand.add(pod, pool) {
		c.poolChanged(ctx, pool)
	}
	c.say(pod, v1alpha1.ReasonColdLaunch, why+": launching a new instance in pool "+string(pool))
	return nil
}

// served forgets a pod that no longer needs anything.
func (c *pending) served(ctx context.Context, pod podKey) {
	c.mu.Lock()
	delete(c.told, pod)
	c.mu.Unlock()
	c.withdraw(ctx, pod)
}

// withdraw ends the pod's demand for a new instance.
func (c *pending) withdraw(ctx context.Context, pod podKey) {
	if pool, was := c.demand.remove(pod); was {
		c.poolChanged(ctx, pool)
	}
}

func (c *pending) say(pod *corev1.Pod, reason v1alpha1.Reason, why string) {
	if !c.news(client.ObjectKeyFromObject(pod), string(pod.UID)+" "+why) {
		return
	}
	kind := corev1.EventTypeWarning
	if reason == v1alpha1.ReasonColdLaunch {
		kind = corev1.EventTypeNormal
	}
	c.events.Eventf(pod, nil, kind, string(reason), "Explain", "%s", why)
}

func (c *pending) news(pod podKey, why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[pod] == why {
		return false
	}
	c.told[pod] = why
	return true
}

// why gives the reason for which no standby node starts for the pod, "" where another replica has claimed one, and the
// pool that could serve it with a new instance, "" if none could.
func (c *pending) why(ctx context.Context, pod *corev1.Pod) (string, v1alpha1.PoolName, error) {
	if why := claim.MayNotStart(pod); why != "" {
		return why, "", nil
	}
	pools := &v1alpha1.NodePoolList{}
	if err := c.reader.List(ctx, pools); err != nil {
		return "", "", err
	}
	nodes := &corev1.NodeList{}
	if err := c.reader.List(ctx, nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		return "", "", err
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	if claimedOn(nodes.Items, pod.UID) {
		return "", "", nil
	}
	if len(pools.Items) == 0 {
		return "there is no NodePool", "", nil
	}
	var reasons []string
	var cold *v1alpha1.NodePool
	for i := range pools.Items {
		pool := &pools.Items[i]
		judged := judgePool(pod, pool, nodes.Items)
		reasons = append(reasons, judged.why)
		if judged.launch && (cold == nil || pool.Spec.WeightOrDefault() > cold.Spec.WeightOrDefault()) {
			cold = pool
		}
	}
	slices.Sort(reasons)
	why := strings.Join(reasons, "; ")
	if cold == nil {
		return why, "", nil
	}
	return why, v1alpha1.PoolName(cold.Name), nil
}

// claimedOn reports whether some replica has published a claim of the pod.
func claimedOn(nodes []corev1.Node, pod types.UID) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return slices.Contains(strings.Split(n.Annotations[v1alpha1.AnnotationClaims], ","), string(pod))
	})
}

// judged is what can be said of a pool for a pod.
type judged struct {
	why string
	// launch: a new instance of the pool could serve the pod, and poolSize allows one.
	launch bool
}

// judgePool judges the pod against the pool's nodes as if they were empty. All nodes of a pool are alike, so the first
// refusal by name speaks for the pool where every node refuses.
func judgePool(pod *corev1.Pod, pool *v1alpha1.NodePool, nodes []corev1.Node) judged {
	var refusal string
	var mine, fitting int
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[v1alpha1.LabelPool] != pool.Name {
			continue
		}
		mine++
		why := whyNotNode(pod, pool, n)
		if why == "" {
			fitting++
		} else if refusal == "" {
			refusal = why
		}
	}
	room := pool.Status.Total < pool.Spec.PoolSize
	switch {
	case pool.DeletionTimestamp != nil:
		return judged{why: fmt.Sprintf("pool %s is being deleted", pool.Name)}
	case mine == 0:
		return judged{fmt.Sprintf("pool %s has no node yet", pool.Name), room && mayServe(pod, pool)}
	case fitting == 0:
		return judged{why: fmt.Sprintf("pool %s: %s", pool.Name, refusal)}
	case !room:
		return judged{why: fmt.Sprintf("pool %s is at its poolSize of %d and none of its nodes has room", pool.Name, pool.Spec.PoolSize)}
	}
	return judged{fmt.Sprintf("pool %s has no standby node with room now", pool.Name), true}
}

// mayServe judges the pod against the pool's template alone, while no node tells the rest.
func mayServe(pod *corev1.Pod, pool *v1alpha1.NodePool) bool {
	labels := maps.Clone(pool.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelPool] = pool.Name
	return fit.Schedulable(pod, pool.Spec.Template.Taints, false) == nil && fit.Selects(pod, "", labels) == nil
}

func whyNotNode(pod *corev1.Pod, pool *v1alpha1.NodePool, object *corev1.Node) string {
	n := claim.NodeOf(object, pool)
	node := &fit.Node{Name: n.Name, Labels: object.Labels, Taints: n.Taints, Allocatable: n.Allocatable}
	digest := fit.NewPod(pod, n.Defaults)
	for _, refusal := range []*fit.Refusal{
		digest.Selects(object.Name, object.Labels), digest.Schedulable(node.Taints, false), fit.ResourcesRefuse(digest, node),
	} {
		if refusal != nil {
			return refusal.Words()
		}
	}
	if n.State == v1alpha1.StateStandby && n.KeptBack != "" {
		return "its standby nodes are kept back: " + n.KeptBack
	}
	return ""
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// setup registers the controller. It sees all pods: what is remembered of one has to be forgotten when it is placed.
func (c *pending) setup(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("pending").For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: pendingWorkers}).
		Complete(c)
}
