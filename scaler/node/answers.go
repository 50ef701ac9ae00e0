package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// answered takes in the cloud's answer to a stop or termination of the instance. A refusal becomes
// an event, once for each reason, and shows in Degraded of the pool.
func (c *Reconciler) answered(g gathered, reason v1alpha1.Reason, err error) {
	switch {
	case err == nil:
		c.Inventory.Accepted(g.instance.ID)
	case inventory.IsRefusal(err) && c.Inventory.Refused(g.instance.ID,
		inventory.Refusal{Reason: reason, Message: err.Error(), At: c.Now()}):
		c.event(g, corev1.EventTypeWarning, reason, inventory.Shortened(err.Error()))
	}
}

// failureHolds is how long after the end of its backoff a node's failed start tells something about
// the others of its pool: longer than a start that follows on it takes.
const failureHolds = time.Hour

// observeStart adds what is known of the start of a node that starts: the cloud's answer to this
// process, and, where the node would be replaced, whether others fail as well.
func (c *Reconciler) observeStart(ctx context.Context, g *gathered) error {
	if g.Node.State != v1alpha1.StateStarting {
		return nil
	}
	g.Instance.Accepted = c.Starter.AnswerOf(v1alpha1.NodeName(g.node.Name)).Accepted
	if g.Instance.State != provider.InstanceStopped || g.Node.Failures+1 < lifecycle.MaxStartFailures {
		return nil
	}
	pool := &corev1.NodeList{}
	if err := c.Reader.List(ctx, pool, client.MatchingLabels{v1alpha1.LabelPool: string(g.template.Pool)}); err != nil {
		return err
	}
	for i := range pool.Items {
		n := &pool.Items[i]
		until := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationUnavailableUntil)
		if n.Name != g.node.Name && transition.Failures(n) > 0 && c.Now().Before(until.Add(failureHolds)) {
			g.OtherStartsFail = true
		}
	}
	return nil
}
