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
	case o.Instance.State == provider.InstanceStopped && (settled(o, n.Started) || inherited(o, n.Started)):
		return do(ResumeStart, "start was not carried out")
	}
	return wait("starting", until(deadline, now))
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
	case n.Failures+1 >= MaxStartFailures:
		return replace("failed to start three times in a row")
	}
	return do(FailStart, "not running within scaleUp.readyTimeout")
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
