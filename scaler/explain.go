package scaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

const (
	// explainAfter gives the extender, maybe in another replica, the time to claim a node for the pod and to publish it.
	explainAfter = 2 * time.Second
	// explainAgain is how soon the reason of a pod that still waits is looked at again.
	explainAgain = time.Minute
)

// podKey names a pod, not its uid: a pod that is gone is known by its name only.
type podKey = types.NamespacedName

// explain tells every pod that waits without a node on its way why there is none. The scheduler asks the extender
// nothing about a pod that fits no node in-tree, so nobody else could. It starts nothing.
type explain struct {
	reader     client.Reader
	ledger     *claim.Ledger
	events     events.EventRecorder
	schedulers []string
	now        func() time.Time

	// mu guards told.
	mu sync.Mutex
	// told is what was last said of a pod, so that an event is written when the reason changes, not at every look.
	told map[podKey]string
}

// Reconcile looks at one pod.
func (c *explain) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := c.reader.Get(ctx, req.NamespacedName, pod); err != nil {
		c.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	since, waits := c.waitsSince(pod)
	if !waits || c.ledger.HasClaim(pod.UID) {
		c.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if left := explainAfter - c.now().Sub(since); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	why, err := c.why(ctx, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	if why != "" && c.news(req.NamespacedName, string(pod.UID)+" "+why) {
		c.events.Eventf(pod, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonStandbyUnavailable), "Explain", "%s", why)
	}
	return ctrl.Result{RequeueAfter: explainAgain}, nil
}

// waitsSince reports since when a scheduler with the extender has called the pod unschedulable.
func (c *explain) waitsSince(pod *corev1.Pod) (time.Time, bool) {
	if pod.Status.NominatedNodeName != "" || len(pod.Spec.ResourceClaims) > 0 {
		return time.Time{}, false // on its way, or not judged here. A DaemonSet's pod is: its event says that it starts nothing.
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || !slices.Contains(c.schedulers, pod.Spec.SchedulerName) {
		return time.Time{}, false
	}
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse && cond.Reason == corev1.PodReasonUnschedulable {
			return cond.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

func (c *explain) news(pod podKey, why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[pod] == why {
		return false
	}
	c.told[pod] = why
	return true
}

func (c *explain) forget(pod podKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, pod)
}

// why gives the reason for which no standby node starts for the pod; "" where another replica has claimed one.
func (c *explain) why(ctx context.Context, pod *corev1.Pod) (string, error) {
	if why := claim.MayNotStart(pod); why != "" {
		return why, nil
	}
	pools := &v1alpha1.NodePoolList{}
	if err := c.reader.List(ctx, pools); err != nil {
		return "", err
	}
	nodes := &corev1.NodeList{}
	if err := c.reader.List(ctx, nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		return "", err
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	if claimedOn(nodes.Items, pod.UID) {
		return "", nil
	}
	if len(pools.Items) == 0 {
		return "there is no NodePool", nil
	}
	var reasons []string
	for i := range pools.Items {
		reasons = append(reasons, whyNotPool(pod, &pools.Items[i], nodes.Items))
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; "), nil
}

// claimedOn reports whether some replica has published a claim of the pod.
func claimedOn(nodes []corev1.Node, pod types.UID) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return slices.Contains(strings.Split(n.Annotations[v1alpha1.AnnotationClaims], ","), string(pod))
	})
}

// whyNotPool judges the pod against the pool's nodes as if they were empty. All nodes of a pool are alike, so the first
// refusal by name speaks for the pool where every node refuses.
func whyNotPool(pod *corev1.Pod, pool *v1alpha1.NodePool, nodes []corev1.Node) string {
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
	switch {
	case mine == 0:
		return fmt.Sprintf("pool %s has no node yet", pool.Name)
	case fitting == 0:
		return fmt.Sprintf("pool %s: %s", pool.Name, refusal)
	case int32(mine) >= pool.Spec.PoolSize: //nolint:gosec // bounded by poolSize
		return fmt.Sprintf("pool %s is at its poolSize of %d and none of its nodes has room", pool.Name, pool.Spec.PoolSize)
	}
	return fmt.Sprintf("pool %s has no standby node with room now", pool.Name)
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

// setup registers the controller for pods that wait.
func (c *explain) setup(mgr manager.Manager) error {
	// Also those that no longer wait: what was said of them is forgotten.
	waiting := predicate.NewPredicateFuncs(func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && slices.Contains(c.schedulers, pod.Spec.SchedulerName)
	})
	return ctrl.NewControllerManagedBy(mgr).Named("explain").
		For(&corev1.Pod{}, builder.WithPredicates(waiting)).
		Complete(c)
}
