package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/network"
)

// networkTimeout is how long a node waits for its network before it is taken for connected: a
// network agent that Stratos does not recognise, or that a tenant has broken, must not keep nodes
// from ever being used.
const networkTimeout = 2 * time.Minute

// networkStatus is zero in states in which nothing follows from it.
func (r *raw) networkStatus(n *lifecycle.Node) network.Status {
	if !asksForNetwork(n, r.instance.State) {
		return network.Status{}
	}
	return network.Of(r.node, r.template(), network.AgentsOf(r.pool, r.node, r.daemonSets, r.pods))
}

// networkReady reports whether pods can use the node's network, or the wait for it is over.
func networkReady(r *raw, n *lifecycle.Node, now time.Time) bool {
	if !asksForNetwork(n, r.instance.State) {
		return false
	}
	status := r.networkStatus(n)
	if status.Held || n.State == v1alpha1.StateWarmup && r.instance.State == provider.InstanceStopped {
		return status.Up // that the time is over says nothing about a machine that does not run
	}
	return status.Up || networkOverdue(r.node, r.stepObservedAt, now)
}

// asksForNetwork: in other states nothing follows from the network, and most nodes are in those.
func asksForNetwork(n *lifecycle.Node, state provider.InstanceState) bool {
	switch n.State {
	case v1alpha1.StateWarmup, v1alpha1.StateStarting:
		return true
	case v1alpha1.StateStandby: // a person may have started it
		return state == provider.InstanceRunning
	case v1alpha1.StateStopping:
		return n.Stop.Reason == v1alpha1.StopFailed
	default:
		return false
	}
}

// networkOverdue reports whether a node has waited for its network for networkTimeout. A boot that
// this process has observed is no older than that, whatever the clock says.
func networkOverdue(n *corev1.Node, observed, now time.Time) bool {
	booted := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleUpStarted)
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateWarmup {
		booted = n.CreationTimestamp.Time
		if again := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmupStarted); !again.IsZero() {
			booted = again
		}
	}
	if observed.After(booted) || booted.After(now) && !observed.IsZero() {
		booted = observed
	}
	return !booted.IsZero() && now.Sub(booted) > networkTimeout
}
