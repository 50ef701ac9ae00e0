package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/start"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete

// act carries out one decision.
func (c *Reconciler) act(ctx context.Context, g gathered, d lifecycle.Decision) error {
	switch d.Action {
	case lifecycle.Adopt:
		return c.adopt(ctx, g)
	case lifecycle.RecordSeen, lifecycle.RecordWarmed:
		return c.recordWarmup(ctx, g, d.Action)
	case lifecycle.PullImages, lifecycle.TellImages, lifecycle.RecordImages:
		return c.actOnImages(ctx, g, d.Action)
	case lifecycle.WarmAgain:
		return c.warmAgain(ctx, g, d)
	case lifecycle.StopWarmed, lifecycle.VerifyAndStop, lifecycle.StopAgain, lifecycle.ForceStop, lifecycle.TakeBackStop,
		lifecycle.Fence:
		return c.actOnStop(ctx, g, d)
	case lifecycle.ToStandby:
		return c.toStandby(ctx, g)
	case lifecycle.RecordReports:
		return c.recordReports(ctx, g)
	case lifecycle.RequestStart, lifecycle.ResumeStart, lifecycle.FailStart, lifecycle.ReturnStart, lifecycle.DeclineStart,
		lifecycle.BlameType, lifecycle.ReturnType, lifecycle.SetReservation:
		return c.actOnStart(ctx, g, d)
	case lifecycle.ToRunning, lifecycle.CancelStop:
		return c.toRunning(ctx, g, d)
	case lifecycle.AbandonDrain:
		return c.abandonDrain(ctx, g, d.Reason)
	case lifecycle.MarkEmpty, lifecycle.MarkInUse, lifecycle.LimitBackoff, lifecycle.BeginStop:
		return c.recordUse(ctx, g.node, d)
	case lifecycle.Drain, lifecycle.DeletePods, lifecycle.DeleteLeft:
		return c.removePods(ctx, g, d.Action)
	case lifecycle.BeginTerminate, lifecycle.Terminate, lifecycle.RecordFailure, lifecycle.DeleteNode:
		return c.actOnEnd(ctx, g, d)
	case lifecycle.Wait: // carries nothing out
	}
	return unknownAction(d.Action)
}

func unknownAction(a lifecycle.Action) error { return fmt.Errorf("no such action: %s", a) }

// recordUse writes to a Node how it is used: what is decided next is decided by that.
func (c *Reconciler) recordUse(ctx context.Context, n *corev1.Node, d lifecycle.Decision) error {
	switch d.Action {
	case lifecycle.MarkEmpty:
		return c.patch(ctx, n, transition.Empty(n, c.Now()))
	case lifecycle.MarkInUse:
		return c.patch(ctx, n, transition.InUse(n))
	case lifecycle.LimitBackoff:
		return c.patch(ctx, n, transition.Backoff(n, c.Now().Add(lifecycle.MaxBackoff)))
	case lifecycle.BeginStop:
		return c.patch(ctx, n, transition.Stopping(n, d.StopReason, c.Now()))
	default:
		return unknownAction(d.Action)
	}
}

// removePods takes pods off a node that is to stop or to be terminated.
func (c *Reconciler) removePods(ctx context.Context, g gathered, a lifecycle.Action) error {
	switch a {
	case lifecycle.Drain:
		return c.drain(ctx, g)
	case lifecycle.DeletePods:
		return c.deletePods(ctx, g)
	case lifecycle.DeleteLeft:
		return c.deleteLeft(ctx, g)
	default:
		return unknownAction(a)
	}
}

// actOnEnd terminates the instance, or finishes what is left of one that has ended.
func (c *Reconciler) actOnEnd(ctx context.Context, g gathered, d lifecycle.Decision) error {
	switch d.Action {
	case lifecycle.BeginTerminate:
		return c.beginTerminate(ctx, g, d)
	case lifecycle.Terminate:
		return c.terminate(ctx, g, d)
	case lifecycle.RecordFailure:
		return c.recordFailure(ctx, g, d)
	case lifecycle.DeleteNode:
		return c.deleteNode(ctx, g, d)
	default:
		return unknownAction(d.Action)
	}
}

// callsCloud reports whether the action waits for an answer of the cloud.
func callsCloud(action lifecycle.Action) bool {
	switch action {
	case lifecycle.WarmAgain, lifecycle.StopWarmed, lifecycle.VerifyAndStop, lifecycle.StopAgain, lifecycle.ForceStop,
		lifecycle.Fence, lifecycle.FailStart, lifecycle.ReturnStart, lifecycle.BlameType, lifecycle.Terminate,
		lifecycle.RecordReports:
		return true
	default:
		return false
	}
}

// actOnStart begins a start, goes on with it, or ends it.
func (c *Reconciler) actOnStart(ctx context.Context, g gathered, d lifecycle.Decision) error {
	switch d.Action {
	case lifecycle.RequestStart:
		return c.Starter.StartBound(ctx, g.node)
	case lifecycle.ResumeStart:
		c.resumeStart(g)
		return nil
	case lifecycle.ReturnType:
		c.Starter.ReturnType(v1alpha1.NodeName(g.node.Name), g.ReturnTo)
		c.Poke()
		return nil
	case lifecycle.SetReservation:
		c.Starter.SetReservation(v1alpha1.NodeName(g.node.Name), *g.Reservation)
		return nil
	case lifecycle.DeclineStart:
		return c.declineStart(ctx, g, d.Reason)
	default:
		return c.failStart(ctx, g, d.Action, d.Reason)
	}
}

// recordFailure tells once of an instance that ended before it had a Node.
func (c *Reconciler) recordFailure(ctx context.Context, g gathered, d lifecycle.Decision) error {
	c.warmupFailed(g, d)
	c.Inventory.Note(g.instance.ID, func(e *inventory.Entry) { e.EndExplained = true })
	return c.Tokens.Revoke(ctx, &g.instance.Instance)
}

func (c *Reconciler) resumeStart(g gathered) {
	c.Starter.Resume(v1alpha1.NodeName(g.node.Name), start.TriggerPending, g.Instance.Seen)
	c.Inventory.Starting(g.instance.ID, c.Now())
	c.Poke()
}

// adopt makes a Node that has registered the pool's. The token that it joined with is deleted
// before: a pod on the machine may read the user data, and so the token, which obtains the
// certificate of any node.
func (c *Reconciler) adopt(ctx context.Context, g gathered) error {
	if err := c.Tokens.Revoke(ctx, &g.instance.Instance); err != nil {
		return err
	}
	patch := transition.Warmup(g.node, g.template())
	if slices.ContainsFunc(g.twins, func(n corev1.Node) bool { return inventory.ManagedInstance(&n) != "" }) {
		patch = transition.Reregistered(g.node, g.template(), c.Now())
	}
	if err := c.patch(ctx, g.node, patch); err != nil {
		return err
	}
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonWarmupStarted, "node registered")
	return nil
}

func (c *Reconciler) recordWarmup(ctx context.Context, g gathered, step lifecycle.Action) error {
	if step == lifecycle.RecordSeen {
		return c.patch(ctx, g.node, transition.Seen(g.node, g.Node.Ready && g.Node.NetworkReady, c.Now()))
	}
	// Once more: a launch that is asked for again after the Node was adopted has its token made again.
	if err := c.Tokens.Revoke(ctx, &g.instance.Instance); err != nil {
		return err
	}
	if err := c.patch(ctx, g.node, transition.Warmed(g.node, c.Now())); err != nil {
		return err
	}
	c.noteComplete(&g)
	took := c.Now().Sub(g.instance.LaunchTime)
	c.Metrics.WarmupDuration.WithLabelValues(string(g.instance.Pool())).Observe(took.Seconds())
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonWarmupCompleted, "node was Ready")
	c.tellForced(g)
	c.Poke()
	return nil
}

func (c *Reconciler) toStandby(ctx context.Context, g gathered) error {
	n := &corev1.Node{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(g.node), n); err != nil {
		return err
	}
	if n.Labels[v1alpha1.LabelState] != g.node.Labels[v1alpha1.LabelState] {
		return apierrors.NewConflict(corev1.Resource("nodes"), n.Name, fmt.Errorf("state changed"))
	}
	// A failed start may have seen only a part of the resources; what was recorded before stands.
	// The same goes for a warm-up after the first, which may have ended before the devices were back.
	whole := g.Node.State != v1alpha1.StateStarting && g.Node.Stop.Reason != v1alpha1.StopFailed &&
		(g.Node.WarmupStarted.IsZero() || n.Annotations[v1alpha1.AnnotationAllocatableAtStop] == "")
	agents, err := c.agentsLive(ctx, g.pool, n)
	if err != nil {
		return err
	}
	c.noteComplete(&g)
	if err := c.patch(ctx, n, transition.Standby(n, g.template(), whole, network.FormatStarts(agents))); err != nil {
		return err
	}
	return c.writeStandbyConditions(ctx, n)
}

// recordReports has the reports of a kubelet that another client had run count as old ones. The
// last sweep may be older than a start that still stands, so the cloud is asked.
func (c *Reconciler) recordReports(ctx context.Context, g gathered) error {
	instance, err := c.Cloud.GetInstance(ctx, string(g.instance.ID))
	switch {
	case err != nil:
		return err
	case instance.State != provider.InstanceStopped:
		c.Poke()
		return nil
	}
	return c.toStandby(ctx, g)
}

// toRunning opens the node. The patch replaces the taints and other controllers write them too, so
// it is tried again at once on the Node as the API server has it: pods are waiting.
func (c *Reconciler) toRunning(ctx context.Context, g gathered, d lifecycle.Decision) error {
	n := g.node
	if d.Action == lifecycle.ToRunning && g.Node.State == v1alpha1.StateWarmup {
		// before the patch: a pod may be bound at once
		c.Demand.Open(v1alpha1.NodeName(n.Name), g.instance.LaunchTime, c.Now())
	}
	if d.Action != lifecycle.ToRunning { // before that Reconcile asks
		c.Starter.AtOpening(ctx, v1alpha1.NodeName(n.Name)) // a drain or stop goes on until the patch
	}
	for range 5 {
		err := c.patch(ctx, n, c.opening(n, &g, d))
		if err == nil {
			c.recordStart(g, d)
			return nil
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		n = &corev1.Node{}
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(g.node), n); err != nil {
			return err
		}
		if n.Labels[v1alpha1.LabelState] != g.node.Labels[v1alpha1.LabelState] ||
			v1alpha1.StopIntentOf(n).Stands() {
			return nil // another writer has moved it on, and that write brings an event
		}
		if agentTaint(n, g.template()) != g.Node.AgentTaint {
			return nil // an agent has gone down since the decision; the next reconcile decides anew
		}
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name, fmt.Errorf("taints keep changing"))
}

// opening is the patch that opens the node.
func (c *Reconciler) opening(n *corev1.Node, g *gathered, d lifecycle.Decision) transition.Patch {
	now := c.Now()
	switch {
	case d.Action == lifecycle.AbandonDrain:
		return transition.DrainAbandoned(n, g.template(), now)
	case d.Action != lifecycle.ToRunning || g.Node.State != v1alpha1.StateStarting:
		return transition.Running(n, g.template(), now)
	}
	var last *v1alpha1.LastStart
	if phases := c.marks.phases(g.instance.ID, g.Node.Started, now); phases != nil {
		last = &v1alpha1.LastStart{Started: g.Node.Started, Phases: phases}
	}
	return transition.Opened(n, g.template(), last, now)
}

func (c *Reconciler) recordStart(g gathered, d lifecycle.Decision) {
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonNodeRunning, d.Reason)
	if d.Action == lifecycle.ToRunning {
		c.tellForced(g)
	}
	if d.Action != lifecycle.ToRunning || g.Node.State != v1alpha1.StateStarting {
		return
	}
	now := c.Now()
	took := now.Sub(g.Node.Started)
	c.Metrics.ScaleupDuration.WithLabelValues(string(g.instance.Pool())).Observe(took.Seconds())
	phases := c.marks.phases(g.instance.ID, g.Node.Started, now)
	for phase, part := range phases {
		c.Metrics.StartPhase.WithLabelValues(string(g.instance.Pool()), string(phase)).Observe(part.Seconds())
	}
	if g.removesStartupTaints() {
		c.Metrics.StartupTaintDuration.WithLabelValues(string(g.instance.Pool())).Observe(took.Seconds())
	}
	if g.pool != nil {
		c.Starts.Add(g.pool, took, phases)
	}
	c.Poke()
}

// tellForced says that a node was taken for connected because the time was over, and what was
// missing.
func (c *Reconciler) tellForced(g gathered) {
	status := g.networkStatus(g.Node)
	switch {
	case status.Up:
	case g.removesStartupTaints():
		c.Metrics.StartupTaintsForced.WithLabelValues(string(g.instance.Pool())).Inc()
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonStartupTaintsForced,
			"startup taints removed, the wait for the network is over: "+status.Missing)
	default:
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonNetworkNotReported,
			"network taken for up, the wait for it is over: "+status.Missing)
	}
}

// removesStartupTaints reports whether it is Stratos that takes startup taints off the node.
func (g *gathered) removesStartupTaints() bool {
	t := g.template()
	return len(t.StartupTaints) > 0 && t.RemoveStartupTaints
}

// replacing reports whether the node goes only for another in its place: then pods that are not to
// be disrupted are waited for.
func replacing(g gathered) bool {
	return g.Policy.Exists && !g.Policy.Deleting && plan.IsReplacement(g.Node.Stop.Reason)
}

func (c *Reconciler) terminate(ctx context.Context, g gathered, d lifecycle.Decision) error {
	if !c.Owner.Owns(&g.instance.Instance) {
		return fmt.Errorf("instance %s does not carry our tags, not terminating it", g.instance.ID)
	}
	if g.node != nil {
		counting, err := c.countingLive(ctx, g.node.Name)
		if err != nil {
			return err
		}
		known := 0 // where the decision knew of pods, it was made about those that outstayed every grace
		if g.WorkloadPods > 0 {
			known = overdueOf(counting, g.deletedSince, c.Now())
		}
		if len(counting) > known {
			return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name, fmt.Errorf("pods are still there"))
		}
	}
	c.warmupFailed(g, d)
	c.Inventory.Note(g.instance.ID, func(e *inventory.Entry) { e.EndExplained = true })
	revokeErr := c.Tokens.Revoke(ctx, &g.instance.Instance)
	err := c.Cloud.TerminateInstance(ctx, string(g.instance.ID))
	c.answered(g, v1alpha1.ReasonTerminationRefused, err)
	c.Poke()
	if err == nil && g.node == nil && !g.Policy.Exists {
		c.orphan(g, fmt.Sprintf("instance %s terminated: %s", g.instance.ID, d.Reason))
	}
	if provider.IsNotFound(err) {
		err = nil
	}
	return cmp.Or(err, revokeErr)
}

func (c *Reconciler) beginTerminate(ctx context.Context, g gathered, d lifecycle.Decision) error {
	if err := c.ensureStillEmpty(ctx, g, d.StopReason); err != nil {
		return err
	}
	if drains, err := c.askFirst(ctx, g, d.StopReason); err != nil || !drains {
		return err
	}
	if d.Failure != "" {
		if _, err := c.currentNode(ctx, g.node); err != nil {
			return err
		}
	}
	c.noteFailure(&g, d) // before the patch, whose event has the pool launch another
	if err := c.patch(ctx, g.node, transition.Terminating(g.node, d.StopReason, c.Now())); err != nil {
		return err
	}
	switch {
	case g.Recycle != "" && d.StopReason == g.Recycle:
		c.recycled(g, d)
	case d.StopReason == v1alpha1.StopTerminated:
		c.warmupFailed(g, d)
	case d.StopReason != v1alpha1.StopFailed:
	case g.Node.State == v1alpha1.StateWarmup:
		c.warmupFailed(g, d)
	default:
		c.Metrics.StartFailures.WithLabelValues(string(g.instance.Pool()), metrics.StartReplaced).Inc()
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonStartFailed, d.Reason)
	}
	return nil
}

// ensureStillEmpty looks at the pods on the API server itself before a running node goes that must
// be empty for it.
func (c *Reconciler) ensureStillEmpty(ctx context.Context, g gathered, reason v1alpha1.StopReason) error {
	if g.Node.State != v1alpha1.StateRunning || reason != v1alpha1.StopDrift && reason != v1alpha1.StopSurplus {
		return nil
	}
	counting, err := c.countingLive(ctx, g.node.Name)
	if err != nil || len(counting) == 0 {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name, fmt.Errorf("in use again"))
}

func (c *Reconciler) recycled(g gathered, d lifecycle.Decision) {
	if g.Node.State == v1alpha1.StateRunning {
		c.Metrics.Scaledown.WithLabelValues(string(g.instance.Pool()), string(d.StopReason)).Inc()
	}
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonRecycled, d.Reason)
}

// warmupFailed reports a warm-up that failed, if that is what was decided about.
func (c *Reconciler) warmupFailed(g gathered, d lifecycle.Decision) {
	if d.Failure == "" {
		return
	}
	c.noteFailure(&g, d)
	c.Metrics.WarmupFailures.WithLabelValues(string(g.instance.Pool()), string(d.Failure)).Inc()
	message := failureOf(&g, string(d.Failure), d.Reason, c.Now()).Message
	c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonWarmupFailed, message)
}

// noteFailure has the pool's launches back off, if the decision ends an instance whose warm-up
// failed. An instance that is warmed up once more has not failed yet.
func (c *Reconciler) noteFailure(g *gathered, d lifecycle.Decision) {
	if d.Failure == "" || d.Action == lifecycle.WarmAgain || g.pool == nil {
		return
	}
	c.Warmups.Failed(g.pool, failureOf(g, string(d.Failure), d.Reason, c.Now()), g.instance.LaunchTime)
}

// noteComplete ends the backoff of the pool's launches where the instance completes its first
// warm-up.
func (c *Reconciler) noteComplete(g *gathered) {
	if g.pool != nil && g.Node.State == v1alpha1.StateWarmup && g.Node.Warmed.IsZero() {
		c.Warmups.Completed(g.pool, launchKey(g))
	}
}

// syncStateTag writes the Node's state to the instance's tag, for people who look at the cloud.
// Nothing reads it back.
func (c *Reconciler) syncStateTag(ctx context.Context, g gathered) error {
	if g.Node == nil || g.Node.State == "" || g.instance.Ending() ||
		g.instance.Tags[v1alpha1.LabelState] == string(g.Node.State) ||
		c.Now().Sub(g.instance.Seen) > time.Minute {
		return nil
	}
	err := c.tagger(ctx).Write(ctx, g.instance.ID, map[string]string{v1alpha1.LabelState: string(g.Node.State)})
	if provider.IsNotFound(err) || provider.IsRateLimit(err) {
		return nil // the next sweep shows the old tag again
	}
	return err
}

func (c *Reconciler) patch(ctx context.Context, n *corev1.Node, p transition.Patch) error {
	return start.PatchNode(ctx, c.Client, n, p)
}

// event reports on the Node where there is one, else on the pool.
func (c *Reconciler) event(g gathered, kind string, reason v1alpha1.Reason, note string) {
	switch {
	case g.node != nil:
		c.Events.Eventf(g.node, nil, kind, string(reason), "Lifecycle", "%s", note)
	case g.pool != nil:
		c.Events.Eventf(g.pool, nil, kind, string(reason), "Lifecycle", "instance %s: %s", g.instance.ID, note)
	}
}
