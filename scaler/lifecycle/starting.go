package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

func starting(o *Observation, now time.Time) Decision {
	n := o.Node
	deadline := o.since(n.Started).Add(o.Policy.ReadyTimeout)
	switch {
	case opens(n) && !goingDown(o):
		// A fresh report is proof that the machine runs, though an older look at the cloud says that it
		// is stopped.
		return do(ToRunning, "node is Ready")
	case !now.Before(deadline):
		return startTooLate(o)
	case o.Instance.State == provider.InstanceStopped && goingDown(o) && (n.Ready || n.NetworkReady):
		return startEnded(o)
	case endedUnseen(o):
		return do(ReturnStart, "started and stopped before this process began")
	case o.Instance.State == provider.InstanceStopped && startNotSeen(o):
		return do(ResumeStart, "start was not carried out")
	}
	return wait("starting", until(deadline, now))
}

// goingDown reports whether the instance was stopped since its start, so that a kubelet
// which reported, or still does, proves nothing.
func goingDown(o *Observation) bool {
	i := o.Instance
	return i.State == provider.InstanceStopping && !i.Accepted.After(i.Seen) ||
		i.State == provider.InstanceStopped && i.Up.After(o.since(o.Node.Started))
}

// startEnded: the machine has come up, and the cloud shows it stopped. What was reported meanwhile
// is recorded on the way to standby. Else it would count after the next start.
func startEnded(o *Observation) Decision {
	if !isConsistent(o, o.Instance.Up) {
		return wait("starting, or stopped by another client: reads of the cloud contradict each other", ConsistencyWait)
	}
	return do(ReturnStart, "stopped by another client since its start")
}

// endedUnseen: no sweep of this process has shown the machine up, and something was reported since
// its start, which was another process's. So it came up and was stopped meanwhile, and what was
// reported counts no more than in startEnded.
func endedUnseen(o *Observation) bool {
	n := o.Node
	return o.Instance.State == provider.InstanceStopped && (n.Ready || n.NetworkReported) &&
		predatesProcess(o, n.Started) && !o.Instance.Accepted.After(n.Started) && isConsistent(o, n.Started)
}

// startNotSeen reports whether a stopped instance shows that the last call to start it had no
// effect, or was never made.
func startNotSeen(o *Observation) bool {
	if o.Instance.Accepted.After(o.Node.Started) {
		return isConsistent(o, o.Instance.Accepted)
	}
	return isConsistent(o, o.Node.Started) || predatesProcess(o, o.Node.Started)
}

// startAccepted reports whether the cloud is known to have accepted the start. Which process made
// the call does not matter: its effect shows in the sweeps.
func startAccepted(o *Observation) bool {
	return shownUp(o) || o.Instance.Accepted.After(o.Node.Started)
}

// shownUp reports whether a sweep has shown the instance pending or running since the start. The
// last sweep needs no comparison with a clock that may have been stepped.
func shownUp(o *Observation) bool {
	i := o.Instance
	return !i.Up.IsZero() && (i.Up.After(o.since(o.Node.Started)) || !i.Up.Before(i.Seen))
}

// fellBack reports whether the cloud accepted the start and the instance is stopped all the same.
func fellBack(o *Observation) bool {
	return o.Instance.State == provider.InstanceStopped && startAccepted(o)
}

// opens reports whether a node that starts has all that pods need of it.
func opens(n *Node) bool { return n.up() && n.Complete && n.AgentTaint == "" }

// startTooLate is a start that lacks something at scaleUp.readyTimeout.
func startTooLate(o *Observation) Decision {
	n := o.Node
	down := goingDown(o)
	up := n.up() && !down
	switch {
	case down && o.Instance.State == provider.InstanceStopping:
		return do(ReturnStart, "still stopping at scaleUp.readyTimeout")
	case !n.Silent && o.Serving > 0 && !down:
		return do(ToRunning, "pods run on it, and it lacks at scaleUp.readyTimeout: "+lacks(n))
	case up && n.AgentTaint == "":
		// The plugin was removed, or offers fewer devices than before. Another start would lack
		// them too.
		reason := "Ready, with fewer devices than before its stop at scaleUp.readyTimeout: "
		return do(ToRunning, reason+n.Devices+" are back")
	case up:
		return do(ReturnStart, "taint "+n.AgentTaint+" of an agent that is not ready stands at scaleUp.readyTimeout")
	}
	return startLost(o)
}

// startLost is a start of which no machine came that is up at scaleUp.readyTimeout.
func startLost(o *Observation) Decision {
	n := o.Node
	switch {
	case !startAccepted(o):
		return do(DeclineStart, "the cloud did not accept the start within scaleUp.readyTimeout")
	case n.Silent && o.Fallback != "":
		return do(BlameType, "its kubelet did not report as "+o.Fallback+" within scaleUp.readyTimeout"+fallBack(o))
	case n.Failures+1 >= MaxStartFailures && !(fellBack(o) && o.OtherStartsFail) && !o.Policy.Paused:
		return replace("failed to start three times in a row" + fallBack(o))
	}
	return do(FailStart, "not running within scaleUp.readyTimeout"+fallBack(o))
}

// fallBack words an accepted start whose instance is stopped again; empty for any other.
func fallBack(o *Observation) string {
	if !fellBack(o) {
		return ""
	}
	words := ": the cloud accepted the start, and the instance is stopped again"
	if o.Instance.Reason != "" {
		words += ": " + o.Instance.Reason
	}
	return words
}

// lacks says what keeps a node that starts from being opened.
func lacks(n *Node) string {
	switch {
	case !n.Ready:
		return "a Ready kubelet"
	case !n.NetworkReady:
		return "its network"
	case n.AgentTaint != "":
		return "an agent that removes its taint " + n.AgentTaint
	}
	return n.Devices + " are back"
}
