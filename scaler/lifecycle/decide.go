package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Decide gives the next action for one instance and its Node. The rules are tried in the order of docs/lifecycle.md.
func Decide(o Observation, now time.Time) Decision {
	switch {
	case o.Instance.State == provider.InstanceUnknown:
		return wait("cloud does not tell the instance's state", 0)
	case o.Instance.State == provider.InstanceTerminated && o.Node != nil:
		return do(DeleteNode, "instance is terminated")
	case o.Instance.State == provider.InstanceTerminated:
		return wait("instance is terminated", 0)
	case o.Node == nil:
		return unregistered(o, now)
	case !o.Policy.Exists || o.Policy.Deleting:
		if o.Node.State != v1alpha1.StateTerminating {
			return Decision{Action: BeginTerminate, StopReason: v1alpha1.StopDeleted, Reason: "its NodePool is being deleted"}
		}
	}
	switch o.Node.State {
	case "":
		return do(Adopt, "node registered")
	case v1alpha1.StateWarmup:
		return warmup(o, now)
	case v1alpha1.StateStandby:
		return standby(o)
	case v1alpha1.StateStarting:
		return starting(o, now)
	case v1alpha1.StateRunning:
		return running(o, now)
	case v1alpha1.StateStopping:
		return stopping(o, now)
	case v1alpha1.StateTerminating:
		return terminating(o)
	}
	// A state that we do not know was written by somebody else. Adopting again derives the state from the truth.
	return do(Adopt, "unknown state "+string(o.Node.State))
}

func unregistered(o Observation, now time.Time) Decision {
	switch {
	case !o.Policy.Exists || o.Policy.Deleting:
		return do(Terminate, "its NodePool is being deleted")
	case now.Sub(o.Instance.Launched) >= o.Policy.WarmupTimeout:
		return do(Terminate, "no Node registered within preWarm.timeout")
	case o.Instance.State == provider.InstanceStopped && settled(o, o.Instance.Launched):
		return do(Terminate, "stopped itself before its Node registered")
	}
	return wait("waiting for the Node to register", until(o.Instance.Launched.Add(o.Policy.WarmupTimeout), now))
}

func warmup(o Observation, now time.Time) Decision {
	n := o.Node
	switch o.Instance.State {
	case provider.InstanceStopped:
		return warmupStopped(o, now)
	case provider.InstanceStopping:
		force := warmupDeadline(o).Add(ForceStopAfter)
		if !now.Before(force) {
			return do(ForceStop, "stop after warm-up hangs")
		}
		return wait("stopping after warm-up", until(force, now))
	}
	up := n.Ready && n.NetworkReady
	warm := !n.Warmed.IsZero() && up
	late := !now.Before(warmupDeadline(o))
	// A warm-up that we began runs no user data that would power the machine off.
	ours := !o.Policy.SelfStop || !n.WarmupStarted.IsZero()
	switch {
	case warm && n.Complete && o.Counting > 0 && (late || ours):
		// Somebody bound a pod to it in spite of cordon and taint. It is not stopped under the pod.
		return do(ToRunning, "warm, and a pod is bound to it")
	case warm && n.Complete && o.Wanted && ours:
		// Only where we stop it: user data that powers off would take the node away under the pods.
		return do(ToRunning, "promoted: pods wait for a new node")
	case up && n.Images != ImagesPresent && !late:
		return images(o, now, warmupDeadline(o))
	case up && n.Images != ImagesPresent && o.Policy.ImagesBestEffort:
		return do(RecordImages, "images were not all pulled within preWarm.timeout")
	case n.Warmed.IsZero() && up && n.Images == ImagesPresent:
		return do(RecordWarmed, "node is Ready, its network is up and its images are there")
	case !n.Warmed.IsZero() && n.Images == ImagesPresent && ours && o.Counting == 0:
		return do(StopWarmed, "warm-up complete")
	case !late:
		return wait("warming up", until(warmupDeadline(o), now))
	}
	return tooLate(o)
}

// tooLate is a warm-up whose instance still runs at its deadline.
func tooLate(o Observation) Decision {
	n := o.Node
	switch {
	case o.Counting > 0:
		return replace("not warm within preWarm.timeout")
	case !n.WarmupStarted.IsZero() && !n.Warmed.IsZero():
		// It was standby before, and is as good as it was then.
		return do(ForceStop, "images were not pulled within preWarm.timeout")
	case o.Policy.TerminateOnTimeout:
		return replace("not warm within preWarm.timeout")
	case !n.Warmed.IsZero():
		return do(ForceStop, "did not stop itself within preWarm.timeout")
	case n.Ready && n.Images != ImagesPresent && n.WarmupStarted.IsZero():
		return do(ForceStop, "images were not pulled within preWarm.timeout")
	}
	return replace("not warm within preWarm.timeout")
}

// warmupStopped: what was true before the stop is still written on the Node, so a warm-up that ended between two looks counts.
func warmupStopped(o Observation, now time.Time) Decision {
	n := o.Node
	again := !n.WarmupStarted.IsZero()
	switch {
	case n.Images == ImagesPresent && (!n.Warmed.IsZero() || n.EverReady):
		return do(ToStandby, "warmed up and stopped")
	case again && now.Before(warmupDeadline(o)):
		if settled(o, n.WarmupStarted) || inherited(o, n.WarmupStarted) {
			return do(ResumeWarmup, "start for a second warm-up was not carried out")
		}
		return wait("started to be warmed up", SettleTime)
	case again && !n.Warmed.IsZero():
		// Its images are those of an older day. To terminate it would, while a registry is down, empty the pool.
		return do(ToStandby, "images were not pulled, and are as they were")
	case again:
		return replace("not complete after a second warm-up")
	case !n.Warmed.IsZero() || n.EverReady:
		return do(WarmAgain, "stopped before its images were pulled")
	}
	return replace("stopped itself before it was Ready")
}

// warmupDeadline counts from the launch, or from the start of the warm-up that we began.
func warmupDeadline(o Observation) time.Time {
	if o.Node.WarmupStarted.IsZero() {
		return o.Instance.Launched.Add(o.Policy.WarmupTimeout)
	}
	return o.Node.WarmupStarted.Add(o.Policy.WarmupTimeout)
}

// images takes the pulls of a node whose kubelet is there one step further.
func images(o Observation, now, deadline time.Time) Decision {
	switch o.Node.Images {
	case ImagesUnknown:
		return do(PullImages, "images are to be pulled")
	case ImagesFailing:
		return do(TellImages, "an image cannot be pulled")
	case ImagesSettled:
		return do(RecordImages, "images were pulled")
	}
	return wait("images are being pulled", until(deadline, now))
}

func standby(o Observation) Decision {
	switch {
	case o.Instance.State == provider.InstanceRunning && o.Node.Ready && o.Node.NetworkReady && o.Node.Complete:
		return do(ToRunning, "started by somebody else")
	case o.Instance.State == provider.InstanceStopped && o.Counting > 0:
		return do(RequestStart, "a pod is bound to the stopped node")
	}
	return wait("standing by", 0)
}

func starting(o Observation, now time.Time) Decision {
	n := o.Node
	deadline := n.Started.Add(o.Policy.ReadyTimeout)
	switch {
	case n.Ready && n.NetworkReady && n.Complete:
		// A fresh report is proof that the machine runs, whatever an older look at the cloud says.
		return do(ToRunning, "node is Ready")
	case !now.Before(deadline):
		if n.Failures+1 >= MaxStartFailures {
			return replace("failed to start three times in a row")
		}
		return do(FailStart, "not running within scaleUp.readyTimeout")
	case o.Instance.State == provider.InstanceStopped && (settled(o, n.Started) || inherited(o, n.Started)):
		return do(ResumeStart, "start was not carried out")
	}
	return wait("starting", until(deadline, now))
}

func running(o Observation, now time.Time) Decision {
	n := o.Node
	empty := o.Counting == 0 && o.Claims == 0
	switch {
	case o.Instance.State == provider.InstanceStopped && settled(o, n.Running):
		return do(ToStandby, "stopped by somebody else")
	case !empty && !n.EmptySince.IsZero():
		return do(MarkInUse, "in use again")
	case o.Counting > 0:
		return wait("in use", 0)
	case !empty:
		// A claim ends without any event on this node: look again.
		return wait("promised to waiting pods", 5*time.Second)
	case !o.Policy.ScaleDown:
		return wait("empty, and scale-down is disabled", 0)
	case n.DoNotDisrupt:
		return wait("empty, and annotated "+v1alpha1.AnnotationDoNotDisrupt, 0)
	case n.EmptySince.IsZero():
		return do(MarkEmpty, "empty")
	case now.Sub(n.EmptySince) < o.Policy.EmptyTTL:
		return wait("empty, waiting for emptyNodeTTL", until(n.EmptySince.Add(o.Policy.EmptyTTL), now))
	}
	return Decision{Action: BeginStop, StopReason: v1alpha1.StopEmpty, Reason: "empty for emptyNodeTTL"}
}

func stopping(o Observation, now time.Time) Decision {
	if !o.Node.StopIntent.IsZero() {
		return stopIntended(o, now)
	}
	since := now.Sub(o.Node.StoppingSince)
	switch {
	case o.Instance.State == provider.InstanceStopped && settled(o, o.Node.StoppingSince):
		return do(ToStandby, "stopped by somebody else while draining")
	case o.Counting > 0 || o.Claims > 0:
		return do(CancelStop, "needed again before it was stopped")
	case since < CordonTime:
		return wait("cordoned, letting binds in flight land", CordonTime-since)
	case o.Node.Images != ImagesPresent && o.Node.Ready && since < CordonTime+o.Policy.WarmupTimeout:
		return images(o, now, o.Node.StoppingSince.Add(CordonTime+o.Policy.WarmupTimeout))
	case !now.Before(drainDeadline(o)):
		return do(CancelStop, "not drained within scaleDown.drainTimeout")
	}
	return do(VerifyAndStop, "empty")
}

// drainDeadline: the look at the images has its own time and takes none of the drain's.
func drainDeadline(o Observation) time.Time {
	switch n := o.Node; {
	case !n.ImagesChecked.IsZero():
		return n.ImagesChecked.Add(o.Policy.DrainTimeout)
	case n.Images != ImagesPresent:
		return n.StoppingSince.Add(o.Policy.WarmupTimeout + o.Policy.DrainTimeout)
	default:
		return n.StoppingSince.Add(o.Policy.DrainTimeout)
	}
}

// stopIntended: nobody cancels any more. The way out is the cloud saying stopped.
func stopIntended(o Observation, now time.Time) Decision {
	force := o.Node.StopIntent.Add(ForceStopAfter)
	switch {
	case o.Instance.State == provider.InstanceStopped && o.Instance.Seen.After(o.Node.StopIntent):
		return do(ToStandby, "stopped")
	case !now.Before(force):
		return do(ForceStop, "stop hangs")
	case o.Instance.State == provider.InstanceStopping:
		return wait("instance is stopping", until(force, now))
	case settled(o, o.Node.StopIntent), inherited(o, o.Node.StopIntent):
		return do(StopAgain, "stop was not carried out")
	}
	return wait("stop asked", SettleTime)
}

func terminating(o Observation) Decision {
	if o.Counting > 0 {
		return Decision{Action: Drain, Reason: "draining before termination", After: 2 * time.Second}
	}
	return do(Terminate, "drained")
}

// settled reports whether the cloud was asked long enough after the given moment for its answer to show what we did then.
func settled(o Observation, since time.Time) bool {
	return o.Instance.Seen.After(since.Add(SettleTime))
}

// inherited reports whether the intent is older than this process. Its call may have been lost with the process that wrote it, so it is made
// again at once: pods wait, and where it was made after all and the cloud's reads only lag, making it twice does nothing.
func inherited(o Observation, intent time.Time) bool { return intent.Before(o.Born) }

// replace lets the node go through a drain: somebody may have bound a pod to it all the same.
func replace(reason string) Decision {
	return Decision{Action: BeginTerminate, StopReason: v1alpha1.StopFailed, Reason: reason}
}

func do(a Action, reason string) Decision { return Decision{Action: a, Reason: reason} }

func wait(reason string, after time.Duration) Decision {
	return Decision{Action: Wait, Reason: reason, After: after}
}

// until is the time left, at least a second so that a deadline in the past never spins.
func until(t, now time.Time) time.Duration { return max(t.Sub(now), time.Second) }
