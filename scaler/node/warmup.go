package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// warmAgain has a stopped instance started to be warmed up once more: one whose warm-up ended
// incomplete, or a standby node that lacks images. The intent is written once, the call is made
// again as often as it is asked for. The Node and its pods are read from the API server: what they
// have reported until now is recorded.
func (c *Reconciler) warmAgain(ctx context.Context, g gathered, d lifecycle.Decision) error {
	n, err := c.currentNode(ctx, g.node)
	if err != nil {
		return err
	}
	if g.Node.WarmupStarted.IsZero() {
		agents, err := c.agentsLive(ctx, g.pool, n)
		if err != nil {
			return err
		}
		if err := c.patch(ctx, n, transition.WarmAgain(n, g.template(), network.FormatStarts(agents), c.Now())); err != nil {
			return err
		}
		c.sayWarmAgain(g, d)
	}
	if err := c.Starter.WarmAgain(ctx, n); err != nil {
		return err // the intent stands; a later look asks again
	}
	c.Inventory.Starting(g.instance.ID, c.Now())
	c.Poke()
	return nil
}

// currentNode reads the Node from the API server, and reports a conflict where that has a later
// version than the cache: a report that the cache does not show yet must not count as one that
// never came.
func (c *Reconciler) currentNode(ctx context.Context, cached *corev1.Node) (*corev1.Node, error) {
	n := &corev1.Node{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(cached), n); err != nil {
		return nil, err
	}
	if n.ResourceVersion != cached.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), n.Name, fmt.Errorf("changed since it was read"))
	}
	return n, nil
}

// agentsLive reads the network agents of a stopped node, their pods from the API server itself: a
// container start that a cache missed would count as one of the next life.
func (c *Reconciler) agentsLive(ctx context.Context, p *v1alpha1.NodePool, n *corev1.Node) ([]network.Agent, error) {
	sets, err := pool.DaemonSets(ctx, c.Reader)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := c.Live.List(ctx, pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
		return nil, err
	}
	return network.AgentsOf(p, n, sets, pods.Items), nil
}

func (c *Reconciler) sayWarmAgain(g gathered, d lifecycle.Decision) {
	if d.Failure != "" {
		c.warmupFailed(g, d)
		return
	}
	c.event(g, corev1.EventTypeNormal, v1alpha1.ReasonWarmupStarted, d.Reason)
}

// failureOf makes the record of a failed warm-up.
func failureOf(g *gathered, reason, message string, now time.Time) v1alpha1.WarmupFailure {
	if words := g.instance.StateReason; words != "" && g.instance.Gone() {
		message += ": " + words
	}
	return v1alpha1.WarmupFailure{
		Time: metav1.NewTime(now), InstanceID: g.instance.ID, Zone: g.instance.Zone,
		Reason: reason, Message: inventory.Shortened(message), Hash: launchKey(g),
	}
}

// launchKey is the class and the template that the instance was launched from.
func launchKey(g *gathered) string {
	n := g.node
	if n == nil {
		n = &corev1.Node{}
	}
	return nodeclass.OriginOf(g.instance, n).Key()
}
