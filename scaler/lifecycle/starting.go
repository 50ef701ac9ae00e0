package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

func starting(o Observation, now time.Time) Decision {
	n := o.Node
	deadline := o.since(n.Started).Add(o.Policy.ReadyTimeout)
	switch {
	case opens(n):
		// A fresh report is proof that the machine runs, whatever an older look at the cloud says.
		return do(ToRunning, "node is Ready")
	case !now.Before(deadline):
		return startTooLate(o)
	case o.Instance.State == provider.InstanceStopped && startNotSeen(o):
		return do(ResumeStart, "start was not carried out")
	}
	return wait("starting", until(deadline, now))
}

// startNotSeen reports whether a stopped instance shows that the last call to start it did nothing, or that nobody made
// one.
func startNotSeen(o Observation) bool {
	if o.Instance.Accepted.After(o.Node.Started) {
		return settled(o, o.Instance.Accepted)
	}
	return settled(o, o.Node.Started) || inherited(o, o.Node.Started)
}

// startAccepted reports whether the cloud is known to have accepted the start. Which process made the call does not
// matter: what it led to shows in the sweeps. The last sweep needs no comparison with a clock that may have been stepped.
func startAccepted(o Observation) bool {
	i := o.Instance
	shown := !i.Up.IsZero() && (i.Up.After(o.Node.Started) || !i.Up.Before(i.Seen))
	return shown || i.Accepted.After(o.Node.Started)
}

// fellBack reports whether the cloud accepted the start and the instance is stopped all the same.
func fellBack(o Observation) bool {
	return o.Instance.State == provider.InstanceStopped && startAccepted(o)
}

// opens reports whether a node that starts has all that pods need of it.
func opens(n *Node) bool { return n.Ready && n.NetworkReady && n.Complete && n.AgentTaint == "" }

// startTooLate is a start that lacks something at scaleUp.readyTimeout.
func startTooLate(o Observation) Decision {
	n := o.Node
	up := n.Ready && n.NetworkReady
	switch {
	case !n.Silent && o.Serving > 0:
		return do(ToRunning, "pods run on it, and it lacks at scaleUp.readyTimeout: "+lacks(n))
	case up && n.AgentTaint == "":
		// The plugin was removed, or offers fewer devices than before. Another start would lack them too.
		return do(ToRunning, "Ready, with fewer devices than before its stop at scaleUp.readyTimeout: "+n.Devices+" are back")
	case up:
		return do(ReturnStart, "taint "+n.AgentTaint+" of an agent that is not ready stands at scaleUp.readyTimeout")
	case !startAccepted(o) && o.Instance.State == provider.InstanceStopping:
		return do(ReturnStart, "still stopping at scaleUp.readyTimeout")
	case !startAccepted(o):
		return do(DeclineStart, "the cloud did not accept the start within scaleUp.readyTimeout")
	case n.Failures+1 >= MaxStartFailures && !(fellBack(o) && o.OthersFail):
		return replace("failed to start three times in a row" + fallBack(o))
	}
	return do(FailStart, "not running within scaleUp.readyTimeout"+fallBack(o))
}

// fallBack words an accepted start whose instance is stopped again; empty for any other.
func fallBack(o Observation) string {
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
