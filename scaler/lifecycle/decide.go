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
	case o.Instance.State == provider.InstanceShuttingDown:
		return shuttingDown(o)
	case o.Instance.Absent && o.Node != nil && o.Node.Reports:
		return wait("the cloud does not know the instance, but its kubelet reports", 0)
	case o.Instance.State == provider.InstanceTerminated && o.Node != nil:
		return vanished(o)
	case o.Instance.State == provider.InstanceTerminated && o.Unexplained:
		return Decision{Action: RecordFailure, Failure: Vanished, Reason: "terminated before its Node registered"}
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
	// A state that we do not know was written by somebody else. Adopting again derives the state from the truth.
	return do(Adopt, "unknown state "+string(o.Node.State))
}

func unregistered(o Observation, now time.Time) Decision {
	switch {
	case !o.Policy.Exists && now.Sub(o.since(o.Instance.Launched)) < UnknownGrace:
		return wait("no pool is known for the instance, and it was first seen lately", until(o.since(o.Instance.Launched).Add(UnknownGrace), now))
	case !o.Policy.Exists || o.Policy.Deleting:
		return do(Terminate, "its NodePool is being deleted")
	case now.Sub(o.since(o.Instance.Launched)) >= o.Policy.WarmupTimeout:
		return Decision{Action: Terminate, Failure: NeverRegistered, Reason: "no Node registered within preWarm.timeout"}
	case o.Instance.State == provider.InstanceStopped && !o.Instance.Up.IsZero() && settled(o, o.Instance.Launched):
		return Decision{Action: Terminate, Failure: NeverRegistered, Reason: "stopped itself before its Node registered"}
	}
	return wait("waiting for the Node to register", until(o.since(o.Instance.Launched).Add(o.Policy.WarmupTimeout), now))
}

func warmup(o Observation, now time.Time) Decision {
	n := o.Node
	deadline := warmupDeadline(o)
	late := !now.Before(deadline)
	// User data ran at the first boot: whatever the mode, an instance does not stop itself after a start of ours.
	selfStop := o.Policy.SelfStop && n.WarmupStarted.IsZero()
	switch o.Instance.State {
	case provider.InstanceStopped:
		return warmupStopped(o, now)
	case provider.InstanceStopping:
		if !now.Before(deadline.Add(ForceStopAfter)) {
			return force(o, now, "stop after warm-up hangs")
		}
		return wait("stopping after warm-up", until(deadline.Add(ForceStopAfter), now))
	}
	if !n.StopIntent.IsZero() {
		return stopNotSeen(o, n.StopIntent, now)
	}
	up := n.Ready && n.NetworkReady
	warm := !n.Warmed.IsZero() && up
	lacking := n.Images != ImagesPresent
	complete := n.Warmed.IsZero() && up && !lacking
	switch {
	case !complete && (n.Ready && !n.ReadySeen || up && !n.NetworkSeen):
		return do(RecordSeen, "kubelet or network reported for the first time")
	case warm && n.Complete && o.Counting > 0 && (late || !selfStop):
		// Somebody bound a pod to it in spite of cordon and taint. It is not stopped under the pod.
		return do(ToRunning, "warm, and a pod is bound to it")
	case warm && n.Complete && n.AgentTaint == "" && o.Wanted && !selfStop:
		// Only where we stop it: user data that powers off would take the node away under the pods.
		return do(ToRunning, "promoted: pods wait for a new node")
	case up && lacking && !late:
		return images(o, now, deadline)
	case up && lacking && n.ImagesOptional:
		return do(RecordImages, "best-effort images were not all pulled within preWarm.timeout")
	case complete:
		return do(RecordWarmed, "node is Ready, its network is up and its images are there")
	case !n.Warmed.IsZero() && !lacking && !selfStop && o.Counting == 0:
		return do(StopWarmed, "warm-up complete")
	case !late:
		return wait("warming up", until(deadline, now))
	}
	return tooLate(o)
}

// tooLate is a warm-up whose instance still runs at its deadline.
func tooLate(o Observation) Decision {
	n := o.Node
	again := !n.WarmupStarted.IsZero()
	switch {
	case n.Warmed.IsZero() && !n.EverReady:
		return failed(NeverReady, "never Ready within preWarm.timeout")
	case o.Counting > 0:
		return failed(WarmupTimeout, "not warm within preWarm.timeout")
	case again && !n.Warmed.IsZero():
		// It was complete before, and is as good as it was then. To terminate it would, while a registry is down, empty the pool.
		return do(ForceStop, "images were not pulled within preWarm.timeout")
	case again || o.Policy.TerminateOnTimeout:
		return failed(WarmupTimeout, "not warm within preWarm.timeout")
	}
	return do(ForceStop, "not stopped within preWarm.timeout")
}

// warmupDeadline is the end of the try that is under way.
func warmupDeadline(o Observation) time.Time {
	began := o.Instance.Launched
	if !o.Node.WarmupStarted.IsZero() {
		began = o.Node.WarmupStarted
	}
	return o.since(began).Add(o.Policy.WarmupTimeout)
}

// warmupStopped decides about a warm-up that ended. What was true before the stop is still written on the Node, so one that ended between
// two looks counts.
func warmupStopped(o Observation, now time.Time) Decision {
	n := o.Node
	warm := wasWarm(n)
	if n.WarmupStarted.IsZero() {
		switch {
		case warm && n.Images == ImagesPresent:
			return do(ToStandby, "warmed up and stopped")
		case warm || n.EverReady:
			return warmAgain(o, now)
		}
		return failed(NeverReady, "stopped itself before it was Ready")
	}
	wasReady := n.Ready || n.ReadySeen
	sure := wasReady || settled(o, o.written(n.WarmupStarted)) // that the stop came after our start
	late := !now.Before(warmupDeadline(o))
	switch {
	case warm && n.Images == ImagesPresent && sure:
		return do(ToStandby, "warmed up and stopped")
	case late && !n.Warmed.IsZero():
		return do(ToStandby, "images were not pulled, and are as they were")
	case n.Warmed.IsZero() && wasReady:
		return failed(Incomplete, "stopped before it was complete, for the second time")
	case late:
		return failed(WarmupTimeout, "second warm-up was not complete within preWarm.timeout")
	case settled(o, o.written(n.WarmupStarted)), inherited(o, n.WarmupStarted):
		return do(WarmAgain, "start of the second warm-up was not carried out")
	}
	return wait("second warm-up asked", SettleTime)
}

// wasWarm reports whether the node was Ready with its network up before it stopped. A kubelet with graceful node shutdown
// ends with Ready=False, so what was seen before counts as much as what is written.
func wasWarm(n *Node) bool {
	return (n.Ready || n.ReadySeen) && (n.NetworkReady || n.NetworkSeen) || !n.Warmed.IsZero()
}

// warmAgain follows on a first warm-up that ended incomplete. User data knows nothing of images: one that powers a machine off which lacks no
// more than those is not at fault.
func warmAgain(o Observation, now time.Time) Decision {
	n := o.Node
	if wasWarm(n) && now.Before(warmupDeadline(o)) {
		return do(WarmAgain, "stopped before its images were pulled: warming up once more, under our control")
	}
	return Decision{Action: WarmAgain, Failure: Incomplete, Reason: "stopped before it was complete: warming up once more, under our control"}
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

func standby(o Observation, now time.Time) Decision {
	// Somebody else started it and its kubelet does not report: that gets the time of a start of ours.
	astray := o.Instance.State == provider.InstanceRunning && !o.Instance.Since.IsZero() && now.Sub(o.Instance.Since) >= o.Policy.ReadyTimeout
	hangs := o.Instance.State == provider.InstanceStopping && !o.Instance.Since.IsZero() && now.Sub(o.Instance.Since) >= ForceStopAfter
	switch {
	case hangs && o.Counting == 0 && o.Claims == 0:
		return do(ForceStop, "a stop that somebody else asked for hangs")
	case o.Instance.State == provider.InstanceRunning && opens(o.Node):
		return do(ToRunning, "started by somebody else")
	case o.Instance.State == provider.InstanceStopped && o.Counting > 0:
		return startForBound(o, now)
	case astray && o.Counting > 0:
		return do(RequestStart, "a pod is bound to the node, which somebody else started and which does not report")
	case astray && o.Claims == 0:
		return do(ForceStop, "started by somebody else, and not Ready within scaleUp.readyTimeout")
	case o.Instance.State == provider.InstanceStopped && o.Recycle != "" && o.Claims == 0:
		return recycle(o)
	case o.Instance.State == provider.InstanceStopped && o.Refresh && o.Claims == 0:
		return do(WarmAgain, o.Why)
	case o.Instance.State == provider.InstanceStopped && o.Leaving > 0:
		return do(DeleteLeft, "pods that are being deleted are on the stopped node")
	case backsOffTooLong(o, now):
		return do(LimitBackoff, "backs off for longer than any failed start does")
	}
	return wait("standing by", 0)
}

// startForBound starts the stopped node for a pod that is bound to it. That one can go nowhere else, but what the cloud refused
// a moment ago it would refuse again, and each try is written on the Node.
func startForBound(o Observation, now time.Time) Decision {
	switch left := o.Node.UnavailableUntil.Sub(now); {
	case backsOffTooLong(o, now):
		return do(LimitBackoff, "backs off for longer than any failed start does")
	case left > 0:
		return wait("a pod is bound to the stopped node, which backs off after a failed start", left)
	}
	return do(RequestStart, "a pod is bound to the stopped node")
}

// backsOffTooLong: the back-off was written by a clock that is ahead of ours.
func backsOffTooLong(o Observation, now time.Time) bool {
	return o.Node.UnavailableUntil.After(now.Add(MaxBackoff))
}

func running(o Observation, now time.Time) Decision {
	n := o.Node
	empty := o.Counting == 0 && o.Claims == 0
	switch {
	case o.Instance.State == provider.InstanceStopped && settled(o, o.written(n.Running)):
		return do(ToStandby, "stopped by somebody else")
	case dead(o, now):
		return do(Fence, "its kubelet has not reported for scaleUp.readyTimeout, and its pods have outstayed their grace")
	case o.Recycle != "" && !n.DoNotDisrupt && (empty || o.Recycle == v1alpha1.StopRuntime && !now.Before(drainsAgain(o))):
		return recycle(o)
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
		return wait("empty, and annotated not to be disrupted", 0)
	case o.Attached > 0 && now.Before(drainsAgain(o)):
		return wait("empty, and volumes that kept it from its last stop are still attached", min(until(drainsAgain(o), now), time.Minute))
	case n.EmptySince.IsZero(), n.EmptySince.After(now): // the second was written by a clock that is ahead of ours
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
	began := o.since(o.Node.StoppingSince)
	since := now.Sub(began)
	pulled := began.Add(CordonTime + o.Policy.WarmupTimeout) // nobody waits for images longer
	switch {
	case o.Instance.State == provider.InstanceStopped && settled(o, o.written(o.Node.StoppingSince)):
		return do(ToStandby, "stopped by somebody else while draining")
	case o.Counting > 0 || o.Claims > 0:
		return do(CancelStop, "needed again before it was stopped")
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

// drainDeadline: the look at the images has its own time and takes none of the drain's.
func drainDeadline(o Observation) time.Time {
	n, drain := o.Node, o.Policy.DrainTimeout
	began, look := o.since(n.StoppingSince), CordonTime+o.Policy.WarmupTimeout
	switch {
	case !n.ImagesChecked.IsZero():
		// How long the look took, however the clock was stepped meanwhile.
		took := min(max(n.ImagesChecked.Sub(n.StoppingSince), 0), look)
		return began.Add(took + drain)
	case n.Images != ImagesPresent:
		return began.Add(o.Policy.WarmupTimeout + drain)
	}
	return began.Add(drain)
}

// stopIntended: nobody cancels any more. The way out is the cloud saying stopped.
func stopIntended(o Observation, now time.Time) Decision {
	hangs := o.since(o.Node.StopIntent).Add(ForceStopAfter)
	switch {
	case o.Instance.State == provider.InstanceStopped && o.Instance.Seen.After(o.written(o.Node.StopIntent)):
		return do(ToStandby, "stopped")
	case o.Instance.State == provider.InstanceStopping && now.Before(hangs):
		return wait("instance is stopping", until(hangs, now))
	}
	return stopNotSeen(o, o.since(o.Node.StopIntent), now)
}

// stopNotSeen: the intent to stop stands since then, and the cloud does not show that anything came of it.
func stopNotSeen(o Observation, since, now time.Time) Decision {
	landed := o.Counting > 0 && o.Instance.State != provider.InstanceStopping && !NeverCameUp(o.Node)
	switch {
	case landed && cameToNothing(o):
		return do(TakeBackStop, "a pod has landed, and nothing came of the stop")
	case landed:
		// To ask again would take a machine that runs away under its pod. What was asked may still be carried out.
		return wait("stop asked, and a pod has landed since", CallTime+SettleTime)
	case !now.Before(since.Add(ForceStopAfter)):
		return force(o, now, "stop hangs")
	case settled(o, o.written(o.Node.StopIntent)), inherited(o, o.Node.StopIntent):
		return do(StopAgain, "stop was not carried out")
	}
	return wait("stop asked", SettleTime)
}

// force stops by force, and again after a while only: a forced stop takes its time too, and each call is written on the Node
// before it is made.
func force(o Observation, now time.Time, reason string) Decision {
	ago := now.Sub(o.Node.StopAsked) // negative by a clock that was ahead of ours
	if ago >= 0 && ago < ForceAgain {
		return wait("a stop was asked for a moment ago", ForceAgain-ago)
	}
	return do(ForceStop, reason)
}

// NeverCameUp reports whether the node is stopped because its start failed, and its kubelet has not come up since: what is bound to it does
// not run, and has the node started again once it is stopped.
func NeverCameUp(n *Node) bool {
	return n.StopReason == v1alpha1.StopFailed && !(n.Ready && n.NetworkReady && n.Complete)
}

// cameToNothing reports whether the instance runs although every stop that was asked for has had the time to reach the cloud and to show.
// Whoever asks again writes that on the Node first, and whoever takes the intent back tests that nobody did.
func cameToNothing(o Observation) bool {
	asked := o.written(o.Node.StopIntent)
	if o.Node.StopAsked.After(asked) {
		asked = o.Node.StopAsked
	}
	return settled(o, asked.Add(CallTime))
}

func terminating(o Observation, now time.Time) Decision {
	since := now.Sub(o.since(o.Node.StoppingSince))
	over := o.Policy.Bounded && !o.Node.StoppingSince.IsZero() && since >= o.Policy.TerminationGrace
	late := !o.Node.StoppingSince.IsZero() && since >= o.Policy.DrainTimeout
	switch {
	case o.Counting == 0 && o.Attached > 0 && !late:
		return wait("volumes are still attached", time.Second)
	case o.Counting == 0:
		return do(Terminate, "drained")
	case o.Overdue == o.Counting && silent(o):
		return do(Terminate, "its pods have outstayed their grace, and no kubelet is there to end them")
	case over && o.Overdue == o.Counting:
		return do(Terminate, "disruption.terminationGracePeriod has passed, and its pods do not end")
	case over:
		return Decision{Action: DeletePods, Reason: "disruption.terminationGracePeriod has passed", After: 2 * time.Second}
	case late && !o.Policy.Bounded && spared(o):
		return do(AbandonDrain, "not drained within scaleDown.drainTimeout")
	}
	return Decision{Action: Drain, Reason: "draining before termination", After: 2 * time.Second}
}

// silent reports whether no kubelet is there that could end the node's pods: its instance is stopped, or it is not heard of. Pods that were
// asked to end and whose time for it is over keep nobody waiting then: nobody would ever say that they have ended.
func silent(o Observation) bool {
	return o.Instance.State == provider.InstanceStopped || o.Node.Silent
}

// recycle: it is the node's turn. Another is launched where the pool lacks one then.
func recycle(o Observation) Decision {
	return Decision{Action: BeginTerminate, StopReason: o.Recycle, Reason: o.Why}
}

// spared reports whether a node that cannot be drained goes back to running, to be tried again: it was to be replaced for its age or its
// template. Nodes of a pool that is deleted and instances that fail do not come back; their drains go on.
func spared(o Observation) bool {
	r := o.Node.StopReason
	return o.Policy.Exists && !o.Policy.Deleting && (r == v1alpha1.StopRuntime || r == v1alpha1.StopDrift)
}

// since is from when a deadline counts. What is written is the wall clock's, here or on another machine, and may be hours off: by it alone a clock that is
// stepped would end everything that is under way.
func (o Observation) since(written time.Time) time.Time {
	if o.Witnessed.IsZero() {
		return written
	}
	return o.Witnessed
}

// written is when the step began that the node is in. The clock of whoever wrote it may be ahead of ours; it had begun when
// this process first saw it, at the latest.
func (o Observation) written(t time.Time) time.Time {
	if o.Witnessed.IsZero() || t.Before(o.Witnessed) {
		return t
	}
	return o.Witnessed
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

// failed ends a warm-up for good, like replace.
func failed(kind WarmupFailure, reason string) Decision {
	d := replace(reason)
	d.Failure = kind
	return d
}

func do(a Action, reason string) Decision { return Decision{Action: a, Reason: reason} }

func wait(reason string, after time.Duration) Decision {
	return Decision{Action: Wait, Reason: reason, After: after}
}

// until is the time left, at least a second so that a deadline in the past never spins.
func until(t, now time.Time) time.Duration { return max(t.Sub(now), time.Second) }
