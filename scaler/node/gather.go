package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// gathered is an observation and the objects that it was made from.
type gathered struct {
	lifecycle.Observation
	instance inventory.Entry
	node     *corev1.Node
	// twins are other Nodes with the same providerID.
	twins    []corev1.Node
	pool     *v1alpha1.NodePool
	template transition.Template
	// network is zero in states in which nothing follows from it.
	network network.Status
	pulls   pulls
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

// Gather does all the reading for a decision about one instance.
func (c *Reconciler) Gather(ctx context.Context, id v1alpha1.InstanceID) (gathered, error) {
	g := gathered{}
	e, err := c.instance(ctx, id)
	if err != nil {
		return g, err
	}
	g.instance = e
	g.Instance = lifecycle.Instance{
		State: e.State, Launched: e.LaunchTime, Seen: e.Seen, Since: e.Since, Up: e.Up, Absent: e.Absent,
		Reason: e.StateReason,
	}
	if g.pool, err = c.poolOf(ctx, e.Pool()); err != nil {
		return g, err
	}
	g.Policy = policyOf(g.pool)
	g.ProcessStart = c.Born
	g.template = transition.TemplateOf(g.pool, e.Pool(), e.ID)
	g.template.Origin = nodeclass.OriginOf(e, &corev1.Node{}).Annotations()
	if g.node, g.twins, err = c.nodesOf(ctx, e.ProviderID); err != nil {
		return g, err
	}
	g.StepObservedAt = c.Steps.since(id, stepOf(g.node), c.Now())
	g.Unreported = c.Steps.unreported(id, g.node, c.Now())
	if g.node == nil {
		g.EndUnexplained, g.TerminationRequested = g.Policy.Exists && e.EndUnexplained(), e.EndExplained
		if e.Gone() {
			c.Steps.forget(id)
		}
		return g, nil
	}
	if !e.Registered {
		c.Inventory.Note(id, func(e *inventory.Entry) { e.Registered = true })
	}
	pods, err := c.podsOn(ctx, g.node.Name)
	if err != nil {
		return g, err
	}
	counting := c.observePods(&g, pods)
	turn := c.Disruptions.Of(g.template.Pool, v1alpha1.NodeName(g.node.Name))
	g.Recycle, g.Refresh, g.Why = turn.Reason, turn.Refresh, turn.Why
	g.Claims = len(c.State.ClaimsOn(v1alpha1.NodeName(g.node.Name)))
	g.Node = Observe(g.node, g.template)
	if err := c.observeStart(ctx, &g); err != nil {
		return g, err
	}
	if err := c.observeNetwork(ctx, &g, pods); err != nil {
		return g, err
	}
	g.Node.DoNotDisrupt = pool.DoNotDisrupt(g.node, counting)
	if err := c.observeAttached(ctx, &g, pods); err != nil {
		return g, err
	}
	if g.pulls, err = c.pullsOf(ctx, &g, pods); err != nil {
		return g, err
	}
	g.Node.Images, g.Node.ImagesOptional = g.pulls.state(&g, c.Now()), g.pulls.required.Missing() == 0
	g.Wanted, err = c.wanted(ctx, &g)
	return g, err
}

// observePods counts the pods of the node, and returns the workload pods among them.
func (c *Reconciler) observePods(g *gathered, pods []corev1.Pod) []*corev1.Pod {
	counting := transition.WorkloadPods(g.node.Name, c.Namespace, pods)
	g.WorkloadPods, g.OverduePods = len(counting), overdueOf(counting, c.Now())
	g.DeletingPods = len(transition.DeletingPods(g.node.Name, c.Namespace, pods))
	g.Serving = servingOf(counting)
	return counting
}

// observeAttached counts the volumes on a node that is being drained. On other nodes they decide
// nothing.
func (c *Reconciler) observeAttached(ctx context.Context, g *gathered, pods []corev1.Pod) error {
	if !leaves(g.Node) {
		return nil
	}
	volumes, err := c.attached(ctx, g.node.Name, pods)
	if err != nil {
		return err
	}
	g.Attached = len(volumes)
	return nil
}

// leaves reports whether the node is being drained, or was and is to be drained again.
func leaves(n *lifecycle.Node) bool {
	return n.State == v1alpha1.StateStopping || n.State == v1alpha1.StateTerminating || !n.DrainFailed.IsZero()
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

// podsOn lists the pods that are bound or nominated to the node.
func (c *Reconciler) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexPodNode: node}); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Observe reads the cluster's side of a node.
func Observe(n *corev1.Node, t transition.Template) *lifecycle.Node {
	started := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleUpStarted)
	ready := transition.Condition(n, corev1.NodeReady)
	missing := transition.MissingDevices(n)
	return &lifecycle.Node{
		State:         v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]),
		Ready:         ready != nil && ready.Status == corev1.ConditionTrue && transition.Fresh(n, ready),
		Reports:       inventory.Reports(n),
		Silent:        ready == nil || ready.Status == corev1.ConditionUnknown || !transition.Fresh(n, ready),
		EverReady:     wasReady(n, ready),
		ReadySeen:     n.Annotations[v1alpha1.AnnotationReadySeen] != "",
		NetworkSeen:   n.Annotations[v1alpha1.AnnotationNetworkSeen] != "",
		AgentTaint:    agentTaint(n, t),
		Complete:      len(missing) == 0,
		Devices:       strings.Join(missing, ", "),
		Warmed:        v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmedAt),
		Started:       started,
		Running:       v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationRunningSince),
		EmptySince:    v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleDownCandidateSince),
		StoppingSince: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationStoppingSince),
		Stop:          v1alpha1.StopIntentOf(n),
		Failures:      transition.Failures(n),
		DrainFailed:   v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationDrainFailedAt),
		DrainFailures: transition.DrainFailures(n),
		WarmupStarted: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmupStarted),
		ImagesChecked: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationImagesChecked),

		UnavailableUntil: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationUnavailableUntil),
	}
}

// wasReady reports whether some Ready report was true in the life of the Node, also one left over
// from before a stop.
func wasReady(n *corev1.Node, ready *corev1.NodeCondition) bool {
	if n.Annotations[v1alpha1.AnnotationReadySeen] != "" {
		return true
	}
	return ready != nil && (ready.Status == corev1.ConditionTrue || fellSilent(ready) || turnedNotReady(n, ready))
}

// fellSilent reports whether a kubelet that had reported does not report any more, so that it is
// not known whether it was Ready: its instance may have warmed up and stopped while no Stratos was
// there to see it.
func fellSilent(ready *corev1.NodeCondition) bool {
	return ready.Status == corev1.ConditionUnknown && ready.Reason == "NodeStatusUnknown"
}

// turnedNotReady reports whether the kubelet of a first warm-up said NotReady later than it
// registered: it was Ready in between. Both stamps are of the node's own clock: the conditions
// other than Ready do not change in a warm-up.
func turnedNotReady(n *corev1.Node, ready *corev1.NodeCondition) bool {
	pressure := transition.Condition(n, corev1.NodeMemoryPressure)
	if ready.Status != corev1.ConditionFalse || pressure == nil || n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" {
		return false
	}
	return ready.LastTransitionTime.Sub(pressure.LastTransitionTime.Time) > registrationSkew
}

// registrationSkew is how far the stamps that one report puts on two conditions may lie apart: they
// have whole seconds.
const registrationSkew = time.Second

// agentTaint is the key of the first taint by which an agent says that it is down on the node, ""
// for none. Taints that the pool names in its startup taints are waited for with those.
func agentTaint(n *corev1.Node, t transition.Template) string {
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		named := slices.ContainsFunc(t.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(taint) })
		if decide.IsAgentTaint(taint) && !named && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return taint.Key
		}
	}
	return ""
}

// servingOf counts the pods that run.
func servingOf(counting []*corev1.Pod) int {
	count := 0
	for _, p := range counting {
		if p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}

// podOverdue is how much longer than its grace a pod that is being deleted may take until it is
// not waited for any more: its kubelet tells the API server a moment after its end.
const podOverdue = 10 * time.Second

// overdueOf counts the pods that are being deleted and have outstayed their grace, at whose end
// their deletion time is.
func overdueOf(pods []*corev1.Pod, now time.Time) int {
	count := 0
	for _, p := range pods {
		if p.DeletionTimestamp != nil && now.After(p.DeletionTimestamp.Add(podOverdue)) {
			count++
		}
	}
	return count
}

// policyOf reads what the lifecycle needs of a pool; nil is a pool that is gone.
func policyOf(p *v1alpha1.NodePool) lifecycle.Policy {
	if p == nil {
		return lifecycle.Policy{}
	}
	s := &p.Spec
	grace := time.Duration(0)
	if s.Disruption.TerminationGracePeriod != nil {
		grace = s.Disruption.TerminationGracePeriod.Duration
	}
	return lifecycle.Policy{
		Exists: true, Deleting: p.DeletionTimestamp != nil,
		SelfStop:           s.PreWarm.CompletionModeOrDefault() == v1alpha1.SelfStop,
		TerminateOnTimeout: s.PreWarm.TimeoutActionOrDefault() == v1alpha1.TimeoutTerminate,
		WarmupTimeout:      s.PreWarm.TimeoutOrDefault(),
		ReadyTimeout:       s.ScaleUp.ReadyTimeoutOrDefault(),
		ScaleDown:          s.ScaleDown.EnabledOrDefault(),
		EmptyTTL:           s.ScaleDown.EmptyNodeTTLOrDefault(),
		DrainTimeout:       s.ScaleDown.DrainTimeoutOrDefault(),
		TerminationGrace:   grace,
		Bounded:            s.Disruption.TerminationGracePeriod != nil,
	}
}
