package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/transition"
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
func networkReady(r *raw, n *lifecycle.Node, status network.Status, now time.Time) bool {
	if !asksForNetwork(n, r.instance.State) {
		return false
	}
	if status.Held || n.State == v1alpha1.StateWarmup && r.instance.State == provider.InstanceStopped {
		return status.Up // that the time is over says nothing about a machine that does not run
	}
	return status.Up || n.Ready && networkOverdue(r.node, r.stepObservedAt, bootLimit(r, n), now)
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

// bootLimit is how long a node may take to be Ready with its network up.
func bootLimit(r *raw, n *lifecycle.Node) time.Duration {
	policy := policyOf(r.pool, r.class)
	switch n.State {
	case v1alpha1.StateWarmup:
		return policy.WarmupTimeout
	case v1alpha1.StateStarting:
		return policy.ReadyTimeout
	default:
		return 0
	}
}

// networkOverdue reports whether a node whose kubelet is Ready has waited for its network for
// networkTimeout, at the end of limit at the latest. Its agents can begin when its kubelet does, so
// the time counts from then: a machine that is slow to boot has not waited yet.
func networkOverdue(n *corev1.Node, observed time.Time, limit time.Duration, now time.Time) bool {
	booted := bootedAt(n, observed, now)
	if booted.IsZero() || now.Sub(booted) <= networkTimeout {
		return false
	}
	ready := transition.Condition(n, corev1.NodeReady)
	if ready == nil || now.Sub(booted) >= limit {
		return true
	}
	since := ready.LastTransitionTime.Time // by the node's clock
	return since.Before(booted) || since.After(now) || now.Sub(since) > networkTimeout
}

// bootedAt is when the boot was asked for. One that this process has observed is no older than
// that, whatever the clock says.
func bootedAt(n *corev1.Node, observed, now time.Time) time.Time {
	booted := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleUpStarted)
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateWarmup {
		booted = n.CreationTimestamp.Time
		if again := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmupStarted); !again.IsZero() {
			booted = again
		}
	}
	if observed.After(booted) || booted.After(now) && !observed.IsZero() {
		return observed
	}
	return booted
}
