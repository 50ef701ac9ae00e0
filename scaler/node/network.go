package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/pool"
)

// NetworkTimeout is how long a node waits for its network before it is taken for connected: a
// network agent that Stratos does not recognise, or that a tenant has broken, must not keep nodes
// from ever being used.
const NetworkTimeout = 2 * time.Minute

// observeNetwork reads whether pods can use the node's network, or the wait for it is over.
func (c *Reconciler) observeNetwork(ctx context.Context, g *gathered, pods []corev1.Pod) error {
	if !asksForNetwork(g) {
		return nil
	}
	sets, err := pool.DaemonSets(ctx, c.Reader)
	if err != nil {
		return err
	}
	g.network = network.Of(g.node, g.template, network.AgentsOf(g.pool, g.node, sets, pods))
	g.Node.NetworkReady = g.network.Up
	if g.network.Held || g.Node.State == v1alpha1.StateWarmup && g.Instance.State == provider.InstanceStopped {
		return nil // that the time is over says nothing about a machine that does not run
	}
	g.Node.NetworkReady = g.network.Up || networkOverdue(g.node, g.StepObservedAt, c.Now())
	return nil
}

// asksForNetwork: in other states nothing follows from the network, and most nodes are in those.
func asksForNetwork(g *gathered) bool {
	switch g.Node.State {
	case v1alpha1.StateWarmup, v1alpha1.StateStarting:
		return true
	case v1alpha1.StateStandby: // a person may have started it
		return g.Instance.State == provider.InstanceRunning
	case v1alpha1.StateStopping:
		return g.Node.Stop.Reason == v1alpha1.StopFailed
	default:
		return false
	}
}

// networkOverdue reports whether a node has waited for its network for networkTimeout. A boot that
// this process has observed is no older than that, whatever the clock says.
func networkOverdue(n *corev1.Node, witnessed, now time.Time) bool {
	booted := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleUpStarted)
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateWarmup {
		booted = n.CreationTimestamp.Time
		if again := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmupStarted); !again.IsZero() {
			booted = again
		}
	}
	if witnessed.After(booted) || booted.After(now) && !witnessed.IsZero() {
		booted = witnessed
	}
	return !booted.IsZero() && now.Sub(booted) > NetworkTimeout
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
