package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Decide gives the next action for one instance and its Node. The rules are tried in the order of
// docs/lifecycle.md.
func Decide(o Observation, now time.Time) Decision {
	d := decideUnpaused(&o, now)
	if o.Policy.Paused && begins(&o, d) {
		return wait("the NodePool is paused", 0)
	}
	return d
}

// begins reports whether the decision begins something that a paused pool does not begin. What
// others have begun, and all that only records what is so, goes on.
func begins(o *Observation, d Decision) bool {
	state := v1alpha1.NodeState("")
	if o.Node != nil {
		state = o.Node.State
	}
	switch d.Action {
	case RequestStart, ReturnType, SetReservation, BeginStop, Fence:
		return true
	case BeginTerminate:
		return d.StopReason != v1alpha1.StopTerminated
	case Terminate: // of an instance whose Node never registered
		return state != v1alpha1.StateTerminating && !o.TerminationRequested
	case WarmAgain: // a second warm-up that was asked for is asked for again
		return state == v1alpha1.StateStandby || o.Node.WarmupStarted.IsZero()
	case ForceStop: // of an instance that others started or stop
		return state == v1alpha1.StateStandby
	default:
		return false
	}
}

// decideUnpaused takes no notice of a pause where something begins.
func decideUnpaused(o *Observation, now time.Time) Decision {
	switch {
	case o.Instance.State == provider.InstanceUnknown:
		return unsure(o, "cloud does not tell the instance's state")
	case o.Instance.State == provider.InstanceShuttingDown:
		return shuttingDown(o)
	case o.Instance.Absent && o.Node != nil && o.Node.Reports:
		return unsure(o, "the cloud does not know the instance, but its kubelet reports")
	case o.Instance.State == provider.InstanceTerminated:
		return instanceGone(o)
	case o.Node == nil:
		return unregistered(o, now)
	case o.Policy.ends() && o.Node.State != v1alpha1.StateTerminating:
		return Decision{
			Action: BeginTerminate, StopReason: v1alpha1.StopDeleted, Reason: "its NodePool is being deleted",
		}
	}
	return decideByState(o, now)
}

// unsure keeps everything as it is, because the cloud says nothing that could be acted on. Only
// what is written about the pods is kept up to date: a node that was in use meanwhile would be
// stopped by an old mark.
func unsure(o *Observation, reason string) Decision {
	if n := o.Node; n != nil && n.State == v1alpha1.StateRunning && !n.EmptySince.IsZero() && o.inUse() {
		return do(MarkInUse, "in use again")
	}
	return wait(reason, 0)
}

func decideByState(o *Observation, now time.Time) Decision {
	switch o.Node.State {
	case "":
		return do(Adopt, "node registered")
	case v1alpha1.StateWarmup:
		return warmup(o, now)
	case v1alpha1.StateStandby:
		return standby(o, now)
	case v1alpha1.StateStarting:
		return starting(o, now)
	case v1alpha1.StateRunning:
		return running(o, now)
	case v1alpha1.StateStopping:
		return stopping(o, now)
	case v1alpha1.StateTerminating:
		return terminating(o, now)
	}
	// Stratos did not write this state. Adopting again derives the state from what is observed.
	return do(Adopt, "unknown state "+string(o.Node.State))
}

// unregistered decides about an instance without a Node.
func unregistered(o *Observation, now time.Time) Decision {
	began := o.since(o.Instance.Launched)
	deadline := began.Add(o.Policy.WarmupTimeout)
	switch {
	case !o.Policy.Exists && now.Sub(began) < UnknownGrace:
		left := until(began.Add(UnknownGrace), now)
		return wait("no pool is known for the instance, and it was first seen lately", left)
	case o.Policy.ends():
		return do(Terminate, "its NodePool is being deleted")
	case o.TerminationRequested:
		return do(Terminate, "Stratos has asked for its end, and the cloud does not show it yet")
	case !now.Before(deadline):
		return neverRegistered("no Node registered within preWarm.timeout")
	case o.Instance.State == provider.InstanceStopped && !o.Instance.Up.IsZero() && isConsistent(o, o.Instance.Launched):
		return neverRegistered("stopped itself before its Node registered")
	}
	return wait("waiting for the Node to register", until(deadline, now))
}

func neverRegistered(reason string) Decision {
	return Decision{Action: Terminate, Failure: NeverRegistered, Reason: reason}
}

// ends reports whether the pool is gone or being deleted. The deletion of a paused pool waits.
func (p *Policy) ends() bool { return !p.Exists || p.Deleting && !p.Paused }

// recycle: it is the node's turn. Another is launched where the pool lacks one then.
func recycle(o *Observation) Decision {
	return Decision{Action: BeginTerminate, StopReason: o.Recycle, Reason: o.Why}
}

// replace lets the node go through a drain: a pod may be bound to it all the same.
func replace(reason string) Decision {
	return Decision{Action: BeginTerminate, StopReason: v1alpha1.StopFailed, Reason: reason}
}

// failed ends a warm-up and replaces the instance, like replace.
func failed(kind WarmupFailure, reason string) Decision {
	d := replace(reason)
	d.Failure = kind
	return d
}

func do(a Action, reason string) Decision { return Decision{Action: a, Reason: reason} }

func wait(reason string, after time.Duration) Decision {
	return Decision{Action: Wait, Reason: reason, After: after}
}
