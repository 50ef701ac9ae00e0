package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/start"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// recycle decides which of the pool's nodes go or pull images now, and has the lifecycle of each
// look at it. The decision is kept in memory until the node's state shows it, so that a cache that
// lags lets no more nodes go than the budget allows.
func (c *Reconciler) recycle(
	ctx context.Context, pool *v1alpha1.NodePool, nodes []corev1.Node, images poolImages,
) error {
	name, policy, now := v1alpha1.PoolName(pool.Name), recyclingOf(pool), nodeclass.DesiredOrigin(ctx, c.Classes, pool)
	byID := inventory.ByProviderID(nodes)
	var members []plan.Candidate
	var errs []error
	byName := map[v1alpha1.NodeName]inventory.Entry{}
	for _, e := range c.Inventory.Of(name) {
		n := byID[e.ProviderID]
		delete(byID, e.ProviderID)
		if n == nil || n.Labels[v1alpha1.LabelState] == "" {
			members = append(members, plan.Candidate{State: inventory.StateOf(e, n), Launched: e.LaunchTime})
			continue
		}
		was := nodeclass.OriginOf(e, n)
		if policy.Drift {
			errs = append(errs, c.patchNode(ctx, n, transition.Stamp(n, was.MissingFrom(now))))
		}
		m := memberOf(e, n, cmp.Or(was.Drift(now), c.State.CannotReturn(n)))
		m.Withheld = c.unstartable.withheld(pool, m.Node, c.Now())
		m.Turn = !c.Disruptions.Of(name, m.Node).None()
		m.Stale, m.Refreshing = images.stale(m.Node) && c.startable(n), refreshing(n)
		errs = append(errs, c.occupancy(ctx, n, pool.Spec.ScaleDown.DrainTimeoutOrDefault(), &m))
		members, byName[m.Node] = append(members, m), e
	}
	// The cloud's lists may lack an instance for minutes. Its place in the budget stays taken.
	for _, n := range byID {
		if m := memberOf(inventory.Entry{}, n, ""); m.State == v1alpha1.StateTerminating {
			members = append(members, m)
		}
	}
	if policy.Drift {
		c.sayDrift(name, members, nodes)
	}
	turns := plan.Recycle(members, policy, c.Now())
	if pool.IsPaused() {
		turns = nil
	}
	for _, turn := range c.Disruptions.Set(name, turns) {
		c.Wake(ctx, byName[turn.Node].ID)
	}
	return errors.Join(append(errs, c.markSurplus(ctx, nodes, members, policy))...)
}

func recyclingOf(pool *v1alpha1.NodePool) plan.DisruptionPolicy {
	s := &pool.Spec
	p := plan.DisruptionPolicy{
		PoolSize: s.PoolSize, MinStandby: s.MinStandby, Budget: s.Disruption.BudgetOrDefault(s.PoolSize),
		MaxRuntime: s.RuntimeLimit(), SurplusTTL: s.ScaleDown.StandbySurplusTTLOrDefault(),
		Drift: s.Disruption.DriftOrDefault() == v1alpha1.DriftRecycle,
	}
	if s.Disruption.ExpireAfter != nil {
		p.ExpireAfter = s.Disruption.ExpireAfter.Duration
	}
	return p
}

func memberOf(e inventory.Entry, n *corev1.Node, drift string) plan.Candidate {
	launched := e.LaunchTime
	if made := n.CreationTimestamp.Time; !made.IsZero() && made.Before(launched) {
		launched = made // EC2 tells the time of the last start
	}
	return plan.Candidate{
		Node: v1alpha1.NodeName(n.Name), State: v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]),
		StopReason: v1alpha1.StopIntentOf(n).Reason,
		Launched:   launched, Running: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationRunningSince),
		SurplusSince: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationSurplusSince),
		Drift:        drift,
		Requested:    n.Annotations[v1alpha1.AnnotationReplace] == "true",
	}
}

// occupancy fills in whether the node is empty and whether it must not be taken now. drain is how
// long a drain may take.
func (c *Reconciler) occupancy(ctx context.Context, n *corev1.Node, drain time.Duration, m *plan.Candidate) error {
	claims := len(c.State.ClaimsOn(m.Node))
	switch m.State {
	case v1alpha1.StateStandby:
		m.Protected = claims > 0
	case v1alpha1.StateRunning:
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.MatchingFields{inventory.IndexPodNode: n.Name}); err != nil {
			m.Protected = true // what we cannot see is not empty
			return err
		}
		counting := transition.WorkloadPods(n.Name, c.Namespace, pods.Items)
		m.Empty = len(counting) == 0 && claims == 0
		m.Protected = DoNotDisrupt(n, counting) || !m.Empty && drainBacksOff(n, drain, c.Now())
	case v1alpha1.StateWarmup, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateTerminating:
	}
	return nil
}

// drainBacksOff reports whether drains of the node that did not end are too recent for another.
func drainBacksOff(n *corev1.Node, drain time.Duration, now time.Time) bool {
	failed := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationDrainFailedAt)
	return !failed.IsZero() && now.Sub(failed) < lifecycle.DrainBackoff(drain).After(transition.DrainFailures(n))
}

// DoNotDisrupt reports whether a person wants the node, or a workload pod on it, to stay.
func DoNotDisrupt(n *corev1.Node, counting []*corev1.Pod) bool {
	return ProtectedBy(n.Annotations) != "" ||
		slices.ContainsFunc(counting, func(p *corev1.Pod) bool { return ProtectedBy(p.Annotations) != "" })
}

// ProtectedBy is the annotation of a Node or pod that says that it is not to be disrupted, "" for
// none: ours, Karpenter's, Cluster Autoscaler's.
func ProtectedBy(annotations map[string]string) string {
	switch {
	case annotations[v1alpha1.AnnotationDoNotDisrupt] == "true":
		return v1alpha1.AnnotationDoNotDisrupt
	case annotations[v1alpha1.AnnotationKarpenterDoNotDisrupt] == "true":
		return v1alpha1.AnnotationKarpenterDoNotDisrupt
	case annotations[v1alpha1.AnnotationSafeToEvict] == "false":
		return v1alpha1.AnnotationSafeToEvict
	}
	return ""
}

// sayDrift says once of each node that it drifted.
func (c *Reconciler) sayDrift(name v1alpha1.PoolName, members []plan.Candidate, nodes []corev1.Node) {
	for _, m := range c.Disruptions.noteDrift(name, members) {
		if i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == string(m.Node) }); i >= 0 {
			c.Events.Eventf(&nodes[i], nil, corev1.EventTypeNormal, string(v1alpha1.ReasonDrifted), "Recycle",
				"%s; it is replaced within disruption.budget, a running node when it is empty", m.Drift)
		}
	}
}

// markSurplus writes down since when standby nodes are above minStandby, so that a restart does not
// begin to count anew.
func (c *Reconciler) markSurplus(ctx context.Context, nodes []corev1.Node, members []plan.Candidate,
	policy plan.DisruptionPolicy) error {
	surplus := plan.Surplus(members, policy)
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		marked, is := n.Annotations[v1alpha1.AnnotationSurplusSince] != "",
			slices.Contains(surplus, v1alpha1.NodeName(n.Name))
		if marked == is || v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) != v1alpha1.StateStandby {
			continue
		}
		since := time.Time{}
		if is {
			since = c.Now()
		}
		errs = append(errs, c.patchNode(ctx, n, transition.Surplus(n, since)))
	}
	return errors.Join(errs...)
}

// patchNode writes to a Node as far as it still is as the cache showed it; where it is not, its
// change brings the pool back here.
func (c *Reconciler) patchNode(ctx context.Context, n *corev1.Node, p transition.Patch) error {
	err := start.PatchNode(ctx, c.Client, n, p)
	if apierrors.IsInvalid(err) {
		return nil
	}
	return client.IgnoreNotFound(conflict.Ignore(err))
}
