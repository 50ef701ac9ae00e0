package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

func stopping(o *Observation, now time.Time) Decision {
	if o.Node.Stop.Stands() {
		return stopIntended(o, now)
	}
	began := o.since(o.Node.StoppingSince)
	since := now.Sub(began)
	pulled := began.Add(CordonTime + o.Policy.WarmupTimeout) // images are not waited for longer
	switch {
	case o.Instance.State == provider.InstanceStopped && isConsistent(o, o.written(o.Node.StoppingSince)):
		return do(ToStandby, "stopped by another client while draining")
	case o.WorkloadPods > 0 || o.Claims > 0:
		return do(CancelStop, "needed again before it was stopped")
	case o.Policy.Paused:
		return do(CancelStop, "the NodePool is paused")
	case since < CordonTime:
		return wait("cordoned, letting binds in flight land", CordonTime-since)
	case o.Node.Images != ImagesPresent && o.Node.Ready && now.Before(pulled):
		return images(o, now, pulled)
	case !now.Before(drainDeadline(o)):
		return do(AbandonDrain, "not drained within scaleDown.drainTimeout")
	case o.Attached > 0:
		return wait("volumes are still attached", time.Second)
	}
	return do(VerifyAndStop, "empty")
}

// drainDeadline: the check of the images has its own time and takes none of the drain's.
func drainDeadline(o *Observation) time.Time {
	n, drain := o.Node, o.Policy.DrainTimeout
	began, look := o.since(n.StoppingSince), CordonTime+o.Policy.WarmupTimeout
	switch {
	case !n.ImagesChecked.IsZero():
		// How long the check took, however the clock was stepped meanwhile.
		took := min(max(n.ImagesChecked.Sub(n.StoppingSince), 0), look)
		return began.Add(took + drain)
	case n.Images != ImagesPresent:
		return began.Add(o.Policy.WarmupTimeout + drain)
	}
	return began.Add(drain)
}

// stopIntended: the stop is not cancelled any more. The way out is the cloud saying stopped.
func stopIntended(o *Observation, now time.Time) Decision {
	hangs := o.since(o.Node.Stop.At).Add(ForceStopAfter)
	switch {
	case o.Instance.State == provider.InstanceStopped && o.Instance.Seen.After(o.written(o.Node.Stop.At)):
		return do(ToStandby, "stopped")
	case o.Instance.State == provider.InstanceStopping && now.Before(hangs):
		return wait("instance is stopping", until(hangs, now))
	}
	return stopNotSeen(o, o.since(o.Node.Stop.At), now)
}

// stopNotSeen: the stop intent is there since then, and the cloud does not show the stop.
func stopNotSeen(o *Observation, since, now time.Time) Decision {
	landed := o.WorkloadPods > 0 && o.Instance.State != provider.InstanceStopping && !NeverCameUp(o.Node)
	switch {
	case landed && stopExpired(o):
		return do(TakeBackStop, "a pod has landed, and nothing came of the stop")
	case landed:
		// To ask again would stop the machine under its pod. The first call may still be carried
		// out.
		return wait("stop asked, and a pod has landed since", CallTime+ConsistencyWait)
	case !now.Before(since.Add(ForceStopAfter)):
		return force(o, now, "stop hangs")
	case isConsistent(o, o.written(o.Node.Stop.At)), predatesProcess(o, o.Node.Stop.At):
		return do(StopAgain, "stop was not carried out")
	}
	return wait("stop asked", ConsistencyWait)
}

// force stops by force, and repeats the call after ForceAgain only: a forced stop takes its time
// too, and each call is written on the Node first.
func force(o *Observation, now time.Time, reason string) Decision {
	ago := now.Sub(o.Node.Stop.LastAsked) // negative by a clock that was ahead of ours
	if ago >= 0 && ago < ForceAgain {
		return wait("a stop was asked for a moment ago", ForceAgain-ago)
	}
	return do(ForceStop, reason)
}

// NeverCameUp reports whether the node is stopped because its start failed, and its kubelet has not
// come up since. Pods bound to it do not run, and start the node again once it is stopped.
func NeverCameUp(n *Node) bool {
	return n.Stop.Force() && !(n.up() && n.Complete)
}

// stopExpired reports whether the instance runs although every stop that was asked for has had
// the time to reach the cloud and to show. A further stop is written on the Node first, and the
// patch that removes the intent tests that none was.
func stopExpired(o *Observation) bool {
	asked := o.written(o.Node.Stop.At)
	if o.Node.Stop.LastAsked.After(asked) {
		asked = o.Node.Stop.LastAsked
	}
	return isConsistent(o, asked.Add(CallTime))
}
