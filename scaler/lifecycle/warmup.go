package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

// warmupPhase is how far a warm-up has come. It depends on the observation alone: the deadlines
// are part of each phase's rules. docs/lifecycle.md has the table of the phases.
type warmupPhase string

const (
	// phaseStopped: the first warm-up has ended, by itself or by a stop of Stratos.
	phaseStopped warmupPhase = "Stopped"
	// phaseRetryStopped: a second warm-up was asked for because the first was not complete. The
	// instance has not been started yet, or is stopped again.
	phaseRetryStopped warmupPhase = "RetryStopped"
	// phaseRefreshStopped: the same for a node that was complete before.
	phaseRefreshStopped warmupPhase = "RefreshStopped"
	// phaseStopping: Stratos asked for a stop, or the cloud shows one.
	phaseStopping warmupPhase = "Stopping"
	// phaseComplete: all is there, or was when it was recorded and the images still are.
	phaseComplete warmupPhase = "Complete"
	// phasePulling: kubelet and network are up, and images are missing.
	phasePulling warmupPhase = "Pulling"
	// phaseBooting: the kubelet is not Ready, or the network is not up.
	phaseBooting warmupPhase = "Booting"
)

// phaseOf gives the phase of a node in the state warmup. The cloud knows its instance, which is
// neither shutting down nor terminated. The first case that holds decides.
func phaseOf(o *Observation) warmupPhase {
	n := o.Node
	stopped := o.Instance.State == provider.InstanceStopped
	switch {
	case stopped && n.WarmupStarted.IsZero():
		return phaseStopped
	case stopped && n.Warmed.IsZero():
		return phaseRetryStopped
	case stopped:
		return phaseRefreshStopped
	case o.Instance.State == provider.InstanceStopping || n.Stop.Stands():
		return phaseStopping
	case n.Images == ImagesPresent && (n.up() || !n.Warmed.IsZero()):
		return phaseComplete
	case n.up():
		return phasePulling
	}
	return phaseBooting
}

func warmup(o *Observation, now time.Time) Decision {
	if registeredSince(o) {
		return wait("its kubelet is there, and the cloud was last asked before its Node registered", ConsistencyWait)
	}
	switch phaseOf(o) {
	case phaseStopped:
		return warmupStopped(o, now)
	case phaseRetryStopped:
		return retryStopped(o, now)
	case phaseRefreshStopped:
		return refreshStopped(o, now)
	case phaseStopping:
		return warmupStopping(o, now)
	case phaseComplete:
		return warmupComplete(o, now)
	case phasePulling:
		return warmupPulling(o, now)
	case phaseBooting:
	}
	return warmupBooting(o, now)
}

// registeredSince reports whether the cloud showed the instance stopped before this process first
// saw the warm-up, and the kubelet is there: its Node registered since, so that the instance runs.
// The cloud may not answer for long.
func registeredSince(o *Observation) bool {
	there := o.Node.Reports || !o.Node.EverReady
	return o.Instance.State == provider.InstanceStopped && there && !o.Instance.Seen.After(o.StepObservedAt)
}

const firstReport = "kubelet or network reported for the first time"

func warmupBooting(o *Observation, now time.Time) Decision {
	deadline := warmupDeadline(o)
	switch {
	case o.Node.unrecorded():
		return do(RecordSeen, firstReport)
	case now.Before(deadline):
		return wait("warming up", until(deadline, now))
	}
	return tooLate(o)
}

func warmupPulling(o *Observation, now time.Time) Decision {
	deadline := warmupDeadline(o)
	late := !now.Before(deadline)
	promoted := promotion(o, late)
	switch {
	case o.Node.unrecorded():
		return do(RecordSeen, firstReport)
	case promoted != "":
		return do(ToRunning, promoted)
	case !late:
		return images(o, now, deadline)
	case o.Node.ImagesOptional:
		return do(RecordImages, "best-effort images were not all pulled within preWarm.timeout")
	}
	return tooLate(o)
}

func warmupComplete(o *Observation, now time.Time) Decision {
	deadline := warmupDeadline(o)
	late := !now.Before(deadline)
	promoted := promotion(o, late)
	switch {
	case o.Node.Warmed.IsZero():
		return do(RecordWarmed, "node is Ready, its network is up and its images are there")
	case o.Node.unrecorded():
		return do(RecordSeen, firstReport)
	case promoted != "":
		return do(ToRunning, promoted)
	case !stopsItself(o) && o.WorkloadPods == 0:
		return do(StopWarmed, "warm-up complete")
	case !late:
		return wait("warming up", until(deadline, now))
	}
	return tooLate(o)
}

func warmupStopping(o *Observation, now time.Time) Decision {
	if o.Instance.State != provider.InstanceStopping {
		return stopNotSeen(o, o.Node.Stop.At, now)
	}
	hangs := warmupDeadline(o).Add(ForceStopAfter)
	if now.Before(hangs) {
		return wait("stopping after warm-up", until(hangs, now))
	}
	return force(o, now, "stop after warm-up hangs")
}

// warmupStopped decides after the first warm-up. Reports from before the stop are still on the
// Node, so a warm-up that was complete between two observations counts.
func warmupStopped(o *Observation, now time.Time) Decision {
	n := o.Node
	warm := wasWarm(n)
	switch {
	case warm && n.Images == ImagesPresent:
		return do(ToStandby, "warmed up and stopped")
	case !warm && !n.EverReady:
		return failed(NeverReady, "stopped itself before it was Ready")
	case warm && now.Before(warmupDeadline(o)):
		// User data does not wait for images: to stop before they are pulled is no failure.
		return do(WarmAgain, "stopped before its images were pulled: warming up once more, under our control")
	}
	return Decision{
		Action: WarmAgain, Failure: Incomplete,
		Reason: "stopped before it was complete: warming up once more, under our control",
	}
}

func retryStopped(o *Observation, now time.Time) Decision {
	n := o.Node
	switch {
	case wasWarm(n) && n.Images == ImagesPresent:
		return do(ToStandby, "warmed up and stopped")
	case n.Ready || n.ReadySeen:
		return failed(Incomplete, "stopped before it was complete, for the second time")
	case !now.Before(warmupDeadline(o)):
		return failed(WarmupTimeout, "second warm-up was not complete within preWarm.timeout")
	}
	return startedAgain(o)
}

func refreshStopped(o *Observation, now time.Time) Decision {
	n := o.Node
	// A report proves that the stop is later than the start, and so does a later look at the cloud.
	stoppedSince := n.Ready || n.ReadySeen || isConsistent(o, o.written(n.WarmupStarted))
	switch {
	case n.Images == ImagesPresent && stoppedSince:
		return do(ToStandby, "warmed up and stopped")
	case !now.Before(warmupDeadline(o)):
		return do(ToStandby, "images were not pulled, and are as they were")
	}
	return startedAgain(o)
}

// startedAgain repeats the start of a second warm-up once it is known to have had no effect.
func startedAgain(o *Observation) Decision {
	asked := o.Node.WarmupStarted
	if isConsistent(o, o.written(asked)) || predatesProcess(o, asked) {
		return do(WarmAgain, "start of the second warm-up was not carried out")
	}
	return wait("second warm-up asked", ConsistencyWait)
}

// tooLate is a warm-up whose instance still runs at its deadline.
func tooLate(o *Observation) Decision {
	n := o.Node
	again := !n.WarmupStarted.IsZero()
	switch {
	case n.Warmed.IsZero() && !n.EverReady:
		return failed(NeverReady, "never Ready within preWarm.timeout")
	case o.WorkloadPods > 0:
		return failed(WarmupTimeout, "not warm within preWarm.timeout")
	case again && !n.Warmed.IsZero():
		// It was complete before, and is as good as it was then. To terminate such nodes would
		// empty the pool while a registry is down.
		return do(ForceStop, "images were not pulled within preWarm.timeout")
	case again || o.Policy.TerminateOnTimeout:
		return failed(WarmupTimeout, "not warm within preWarm.timeout")
	}
	return do(ForceStop, "not stopped within preWarm.timeout")
}

// promotion says why a warm node opens to pods without a stop; it is empty for any other node.
func promotion(o *Observation, late bool) string {
	n := o.Node
	switch {
	case n.Warmed.IsZero() || !n.up() || !n.Complete:
		return ""
	case o.WorkloadPods > 0 && (late || !stopsItself(o)):
		// The pod was bound in spite of cordon and taint. The instance is not stopped under the
		// pod.
		return "warm, and a pod is bound to it"
	case n.AgentTaint == "" && o.Wanted && !stopsItself(o):
		return "promoted: pods wait for a new node"
	}
	return ""
}

// stopsItself reports whether user data stops the instance. It runs at the first boot only, so
// Stratos ends every second warm-up itself, whatever the completionMode.
func stopsItself(o *Observation) bool { return o.Policy.SelfStop && o.Node.WarmupStarted.IsZero() }

// warmupDeadline is when preWarm.timeout of the present try ends.
func warmupDeadline(o *Observation) time.Time {
	began := o.Instance.Launched
	if !o.Node.WarmupStarted.IsZero() {
		began = o.Node.WarmupStarted
	}
	return o.since(began).Add(o.Policy.WarmupTimeout)
}

// up reports whether the kubelet is Ready and the network is up.
func (n *Node) up() bool { return n.Ready && n.NetworkReady }

// unrecorded reports whether the kubelet is Ready or the network up for the first time in this
// warm-up.
func (n *Node) unrecorded() bool { return n.Ready && !n.ReadySeen || n.up() && !n.NetworkSeen }

// wasWarm reports whether the node was Ready with its network up before it stopped. A kubelet with
// graceful node shutdown ends with Ready=False, so earlier reports count too.
func wasWarm(n *Node) bool {
	return (n.Ready || n.ReadySeen) && (n.NetworkReady || n.NetworkSeen) || !n.Warmed.IsZero()
}

// images takes the pulls of a node whose kubelet is there one step further.
func images(o *Observation, now, deadline time.Time) Decision {
	switch o.Node.Images {
	case ImagesUnknown:
		return do(PullImages, "images are to be pulled")
	case ImagesFailing:
		return do(TellImages, "an image cannot be pulled")
	case ImagesSettled:
		return do(RecordImages, "images were pulled")
	default:
		return wait("images are being pulled", until(deadline, now))
	}
}
