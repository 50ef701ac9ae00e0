package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// verifyAndStop looks at the pods on the API server itself, because a bind may be on its way
// through our watch, writes the stop intent and stops the instance. A workload pod sends the
// node back to running.
func (c *Reconciler) verifyAndStop(ctx context.Context, g gathered) error {
	counting, err := c.countingLive(ctx, g.node.Name)
	if err != nil {
		return err
	}
	if len(counting) > 0 || len(c.State.ClaimsOn(v1alpha1.NodeName(g.node.Name))) > 0 {
		return c.toRunning(ctx, g, lifecycle.Decision{Action: lifecycle.CancelStop,
			Reason: "needed again before it was stopped"})
	}
	write := func(ctx context.Context) error {
		if err := c.patch(ctx, g.node, transition.StopIntent(g.node, c.Now())); err != nil {
			return err
		}
		took := c.Now().Sub(g.Node.StoppingSince)
		c.Metrics.DrainDuration.WithLabelValues(string(g.instance.Pool())).Observe(took.Seconds())
		return nil
	}
	if err := c.requestStop(ctx, g, write, false); err != nil {
		return err // where the intent was written it stands; a later look asks again
	}
	c.Metrics.Scaledown.WithLabelValues(string(g.instance.Pool()), string(g.Node.Stop.Reason)).Inc()
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonScaleDown, "empty for emptyNodeTTL")
	return c.sayStopping(ctx, g.node)
}

// stopWarmed ends a warm-up. Like every stop it is written down before the cloud is asked, and a
// pod that was bound here holds it up, but not one that hangs: that machine goes down already,
// and the pod has it started again.
func (c *Reconciler) stopWarmed(ctx context.Context, g gathered, force bool) error {
	if err := c.ensureNoWorkload(ctx, g); err != nil {
		return err
	}
	return c.requestStop(ctx, g, c.writing(g, transition.WarmStop(g.node, c.Now())), force)
}

// actOnStop asks for a stop, goes on with one of which nothing was seen, or ends it, or stops the
// instance of a machine that died.
func (c *Reconciler) actOnStop(ctx context.Context, g gathered, d lifecycle.Decision) error {
	switch d.Action {
	case lifecycle.StopWarmed:
		return c.stopWarmed(ctx, g, false)
	case lifecycle.VerifyAndStop:
		return c.verifyAndStop(ctx, g)
	case lifecycle.ForceStop:
		return c.forceStop(ctx, g)
	case lifecycle.TakeBackStop:
		return c.takeBackStop(ctx, g, d)
	case lifecycle.Fence:
		return c.fence(ctx, g, d)
	default:
		return errors.Join(c.stopAgain(ctx, g, g.Node.Stop.Force()), c.sayStopping(ctx, g.node))
	}
}

// stopAgain asks once more for a stop whose intent stands. Pods may have landed since it was
// written.
func (c *Reconciler) stopAgain(ctx context.Context, g gathered, force bool) error {
	if err := c.ensureNoWorkload(ctx, g); err != nil {
		return err
	}
	return c.requestStop(ctx, g, c.writing(g, transition.StopAsked(g.node, c.Now())), force)
}

// forceStop stops an instance that has outstayed its deadline.
func (c *Reconciler) forceStop(ctx context.Context, g gathered) error {
	switch {
	case g.Node.Stop.Stands():
		return c.stopAgain(ctx, g, true)
	// another program or person started it: until it is stopped it gets no claims
	case g.Node.State == v1alpha1.StateStandby:
		if err := c.ensureNoWorkload(ctx, g); err != nil {
			return err
		}
		return c.requestStop(ctx, g, c.writing(g, transition.StopAstray(g.node, c.Now())), true)
	}
	return c.stopWarmed(ctx, g, true)
}

// fence stops by force the instance of a running node whose machine died. The pods are read from
// the API server: none may be left that was not asked to end. Once the instance is stopped the pods
// that are still bound to it have it started.
func (c *Reconciler) fence(ctx context.Context, g gathered, d lifecycle.Decision) error {
	counting, err := c.countingLive(ctx, g.node.Name)
	if err != nil {
		return err
	}
	if overdueOf(counting, g.deletedSince, c.Now()) < len(counting) {
		return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name,
			fmt.Errorf("a pod is there that was not asked to end"))
	}
	return c.requestStop(ctx, g, func(ctx context.Context) error {
		if err := c.patch(ctx, g.node, transition.Fence(g.node, c.Now())); err != nil {
			return err
		}
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonNodeFenced, fmt.Sprintf("instance %s is stopped by force: %s",
			g.instance.ID, d.Reason))
		return nil
	}, true)
}

// takeBackStop removes an intent that had no effect. The next reconcile decides about the node as
// if the stop had not been asked for.
func (c *Reconciler) takeBackStop(ctx context.Context, g gathered, d lifecycle.Decision) error {
	if err := c.patch(ctx, g.node, transition.StopCancelled(g.node)); err != nil {
		return err
	}
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonNodeRunning, d.Reason)
	return nil
}

// failStart writes the intent to stop first: the kubelet of a start that came late reports while
// its machine goes down already, and would pass for one that runs. The step says whether the
// failure counts against the node, or against the type that it started as.
func (c *Reconciler) failStart(ctx context.Context, g gathered, step lifecycle.Action, why string) error {
	written := false
	err := c.requestStop(ctx, g, func(ctx context.Context) error {
		name := v1alpha1.NodeName(g.node.Name)
		if err := c.Starter.Fail(ctx, name, step == lifecycle.FailStart, why); err != nil {
			return err
		}
		written = true
		if step == lifecycle.BlameType {
			c.State.BlameType(name, g.Fallback)
		}
		if g.Instance.State == provider.InstanceStopped { // the cloud says why, and that is for the pool to show
			c.Inventory.Refused(g.instance.ID, inventory.Refusal{Reason: v1alpha1.ReasonStartFailed,
				Message: inventory.Shortened(why), At: c.Now()})
		}
		c.Metrics.StartFailures.WithLabelValues(string(g.instance.Pool()), metrics.StartTimeout).Inc()
		return nil
	}, true)
	if written && provider.IsIncorrectState(err) { // it is going down, or stopped
		return nil
	}
	return err // where the intent was written it stays; the next reconcile asks again
}

// declineStart gives a start up that the cloud never accepted, with the words of its last refusal.
func (c *Reconciler) declineStart(ctx context.Context, g gathered, why string) error {
	name := v1alpha1.NodeName(g.node.Name)
	if words := c.Starter.AnswerOf(name).Refused; words != "" {
		why += ": " + words
	}
	why = inventory.Shortened(why)
	if err := c.Starter.Decline(ctx, name, why); err != nil {
		return err
	}
	c.Inventory.Refused(g.instance.ID, inventory.Refusal{Reason: v1alpha1.ReasonStartFailed, Message: why, At: c.Now()})
	return nil
}

// ensureNoWorkload is a conflict where a pod that would be taken down has come to the node; our
// watch is about to show it.
func (c *Reconciler) ensureNoWorkload(ctx context.Context, g gathered) error {
	if g.Instance.State == provider.InstanceStopping || lifecycle.NeverCameUp(g.Node) {
		return nil // no pod runs there
	}
	counting, err := c.countingLive(ctx, g.node.Name)
	if err == nil && len(counting) > 0 {
		err = apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name, fmt.Errorf("a pod is there"))
	}
	return err
}

// countingLive lists the pods that keep the node running, from the API server. Nominated ones
// cannot be selected by a field there, so those are taken from the cache.
func (c *Reconciler) countingLive(ctx context.Context, node string) ([]*corev1.Pod, error) {
	bound := &corev1.PodList{}
	if err := c.Live.List(ctx, bound, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, err
	}
	cached, err := c.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	for _, p := range cached {
		if p.Spec.NodeName == "" {
			bound.Items = append(bound.Items, p)
		}
	}
	return transition.WorkloadPods(node, c.Namespace, bound.Items), nil
}

// writing writes a patch of the instance's Node.
func (c *Reconciler) writing(g gathered, p transition.Patch) func(context.Context) error {
	return func(ctx context.Context) error { return c.patch(ctx, g.node, p) }
}

// requestStop is the only code that asks the cloud for a stop. It checks once more whose instance
// it is, writes on the Node that the cloud is about to be asked, and asks. The call ends within
// lifecycle.CallTime of that: from then on a reader of the Node may rely on what the cloud says.
func (c *Reconciler) requestStop(ctx context.Context, g gathered, write func(context.Context) error, force bool) error {
	if !c.Owner.Owns(&g.instance.Instance) {
		return fmt.Errorf("instance %s does not carry our tags, not stopping it", g.instance.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, lifecycle.CallTime)
	defer cancel()
	if err := write(ctx); err != nil {
		return err
	}
	err := c.Cloud.StopInstance(ctx, string(g.instance.ID), force)
	c.answered(g, v1alpha1.ReasonStopRefused, err)
	if err != nil {
		return err
	}
	c.Inventory.Stopping(g.instance.ID, c.Now())
	c.Poke()
	if err := c.podsNotReady(ctx, g.node.Name); err != nil {
		// The stop was accepted all the same. When the instance is stopped the pods are written again.
		logr.FromContextOrDiscard(ctx).Info("pods of a stopping node may stay endpoints until it is stopped", "error",
			err.Error())
	}
	return nil
}
