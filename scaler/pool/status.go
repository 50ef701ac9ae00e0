package pool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// report writes the pool's status and gauges, where they changed.
func (c *Reconciler) report(ctx context.Context, pool *v1alpha1.NodePool, count map[v1alpha1.NodeState]int32,
	launchErr error, images *metav1.Condition) error {
	c.Metrics.States(pool, count)
	before := pool.DeepCopy()
	last, failing := c.Warmups.last(pool, nodeclass.DesiredOrigin(ctx, c.Classes, pool).Key())
	c.Metrics.WarmupsFailing(pool, failing)
	s := &pool.Status
	s.LastWarmupFailure = last
	s.Standby, s.Warmup, s.Starting = count[v1alpha1.StateStandby], count[v1alpha1.StateWarmup],
		count[v1alpha1.StateStarting]
	s.Running, s.Stopping, s.Terminating = count[v1alpha1.StateRunning], count[v1alpha1.StateStopping],
		count[v1alpha1.StateTerminating]
	s.Total = total(count)
	s.ObservedGeneration = pool.Generation
	s.Initialized = initialized(pool)
	s.StartSeconds = c.Starts.figures(pool, c.Now())
	c.completionMode(ctx, pool)
	c.conditions(ctx, pool, launchErr, failing)
	setCondition(pool, images)
	if !isWorthWriting(&before.Status, s) {
		return nil
	}
	if launchErr != nil && meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionDegraded) &&
		!meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionDegraded) {
		c.Events.Eventf(pool, nil, corev1.EventTypeWarning, string(launchReason(launchErr)), "Launch", "%v", launchErr)
	}
	return client.IgnoreNotFound(c.Client.Status().Update(ctx, pool))
}

// isWorthWriting reports whether more of the status has changed than the phases of starts. These
// wait for the next write: each start changes the counts of nodes, so the phases add no write.
func isWorthWriting(was, is *v1alpha1.NodePoolStatus) bool {
	was = was.DeepCopy()
	if was.StartSeconds != nil && is.StartSeconds != nil {
		was.StartSeconds.Phases = is.StartSeconds.Phases
	}
	return !equality.Semantic.DeepEqual(was, is)
}

// wakeIfPausedAnew has every instance of a pool looked at that was paused or resumed a moment ago:
// drains end, and what has waited begins.
func (c *Reconciler) wakeIfPausedAnew(ctx context.Context, pool *v1alpha1.NodePool) {
	if pool.IsPaused() == meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionPaused) {
		return
	}
	for _, e := range c.Inventory.Of(v1alpha1.PoolName(pool.Name)) {
		c.Wake(ctx, e.ID)
	}
}

// completionMode shows who stops instances at the end of warm-up. What it was stays where it
// depends on a class that is not there.
func (c *Reconciler) completionMode(ctx context.Context, pool *v1alpha1.NodePool) {
	class, _, err := c.Classes.Get(ctx, pool.Spec.Template.NodeClassRef)
	if err == nil || pool.Spec.PreWarm.CompletionMode != "" {
		pool.Status.CompletionMode = pool.Spec.PreWarm.CompletionModeOf(class)
	}
}

// initialized reports whether minStandby was reached once, now or before. A pool that an earlier
// version called Ready was.
func initialized(pool *v1alpha1.NodePool) bool {
	s := &pool.Status
	return s.Initialized || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) ||
		s.Standby >= pool.Spec.MinStandby || s.Standby+s.Starting+s.Running >= pool.Spec.PoolSize
}

func (c *Reconciler) conditions(ctx context.Context, pool *v1alpha1.NodePool, launchErr error,
	failing *v1alpha1.WarmupFailure) {
	setStatus := func(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason, message string) {
		meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: string(reason), Message: message, ObservedGeneration: pool.Generation,
		})
	}
	set := func(kind string, ok bool, reason v1alpha1.Reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		setStatus(kind, status, reason, message)
	}
	class, reason, words := c.class(ctx, pool.Spec.Template.NodeClassRef)
	setStatus(v1alpha1.ConditionNodeClassReady, class, reason, words)
	if why, cause := c.degraded(ctx, pool, launchErr, failing); why != "" {
		set(v1alpha1.ConditionDegraded, true, why, cause)
	} else {
		set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonHealthy,
			"launches, warm-ups, starts, stops and terminations succeed")
	}
	if _, limited := c.State.StartsLimited(v1alpha1.PoolName(pool.Name), c.Now()); limited {
		set(v1alpha1.ConditionStartsLimited, true, v1alpha1.ReasonStartBudgetUsedUp,
			fmt.Sprintf("%d nodes were started within %s", pool.Spec.ScaleUp.StartBudgetOrDefault(pool.Spec.PoolSize),
				decide.BudgetWindow))
	} else {
		set(v1alpha1.ConditionStartsLimited, false, v1alpha1.ReasonStartBudgetLeft, "scaleUp.startBudget is not used up")
	}
	if pool.IsPaused() {
		set(v1alpha1.ConditionPaused, true, v1alpha1.ReasonPaused, "annotated "+v1alpha1.AnnotationPaused+
			": nothing new begins, and what has begun ends as usual")
	} else {
		set(v1alpha1.ConditionPaused, false, v1alpha1.ReasonNotPaused, "not annotated "+v1alpha1.AnnotationPaused)
	}
	if class == metav1.ConditionTrue || pool.DeletionTimestamp != nil {
		held, withheld := c.unstartable.count(pool, c.Now())
		ready, why, message := readiness(pool, failing, withheld)
		set(v1alpha1.ConditionReady, ready, why, message+notStartable(held))
	} else {
		setStatus(v1alpha1.ConditionReady, class, reason, words)
	}
}

// readiness is the condition Ready of a pool whose class is ready. withheld are the standby nodes
// that do not count towards minStandby.
func readiness(pool *v1alpha1.NodePool, failing *v1alpha1.WarmupFailure, withheld int32) (bool, v1alpha1.Reason,
	string) {
	s := pool.Status
	short := s.Standby-withheld < pool.Spec.MinStandby && s.Standby+s.Starting+s.Running < pool.Spec.PoolSize
	filling := fmt.Sprintf("%d of %d standby, %d warming up", s.Standby, pool.Spec.MinStandby, s.Warmup)
	switch {
	case pool.DeletionTimestamp != nil:
		return false, v1alpha1.ReasonDeleting, fmt.Sprintf("%d instances left", s.Total)
	case failing != nil && short:
		return false, v1alpha1.ReasonWarmupFailing, filling + "; " + explain(failing)
	case !s.Initialized:
		return false, v1alpha1.ReasonWarmingUp, filling
	case short:
		return true, v1alpha1.ReasonPoolReady, filling
	}
	return true, v1alpha1.ReasonPoolReady, fmt.Sprintf("%d standby, %d running", s.Standby, s.Running)
}

// degraded is why the pool needs attention, "" where it does not. A launch that fails outweighs
// warm-ups that fail, and those a refused start, stop or termination, whose event is on its Node.
func (c *Reconciler) degraded(ctx context.Context, pool *v1alpha1.NodePool, launchErr error,
	failing *v1alpha1.WarmupFailure) (v1alpha1.Reason, string) {
	if reason, words := c.reservationDegraded(ctx, pool); reason != "" {
		return reason, words // what else fails does for this
	}
	switch {
	case launchErr != nil:
		return launchReason(launchErr), launchErr.Error()
	case failing != nil:
		return v1alpha1.ReasonWarmupFailing, explain(failing)
	}
	if reason, words := c.Inventory.Absences.DegradedBy(v1alpha1.PoolName(pool.Name), c.Inventory.Lacks); reason != "" {
		return reason, words
	}
	if reason, words := c.Inventory.DegradedBy(v1alpha1.PoolName(pool.Name), c.Now()); reason != "" {
		return reason, words
	}
	if reason, words := c.regionDegraded(ctx, pool); reason != "" {
		return reason, words
	}
	return c.Inventory.Strangers.DegradedBy(v1alpha1.PoolName(pool.Name))
}

// class reports whether the pool's node class exists and is ready. One that was created a moment
// ago does not say so yet.
func (c *Reconciler) class(ctx context.Context, ref v1alpha1.NodeClassRef) (metav1.ConditionStatus, v1alpha1.Reason,
	string) {
	class, _, err := c.Classes.Get(ctx, ref)
	switch {
	case errors.Is(err, nodeclass.ErrNotServed):
		return metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotServed, err.Error()
	case err != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotFound, "no " + ref.Kind + " named " + ref.Name
	}
	_, conditions := class.StatusParts()
	ready := meta.FindStatusCondition(*conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return metav1.ConditionUnknown, v1alpha1.ReasonNodeClassNotResolved,
			ref.Kind + " " + ref.Name + " does not say yet whether it is ready"
	case ready.Status == metav1.ConditionFalse:
		return metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotReady, ready.Message
	}
	return metav1.ConditionTrue, v1alpha1.ReasonNodeClassFound, ref.Kind + " " + ref.Name + " is ready"
}
