package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// shuttingDown: the instance ends for good, and its guest may go on for minutes. Its Node stays, closed to pods, as
// long as its kubelet reports.
func shuttingDown(o Observation) Decision {
	switch {
	case o.Node == nil:
		return wait("instance is shutting down", 0)
	case !o.Node.Reports:
		d := vanished(o)
		d.Reason = "instance is shutting down, and its kubelet does not report"
		return d
	case o.Node.State == v1alpha1.StateTerminating:
		return wait("instance is shutting down", 0)
	}
	d := Decision{Action: BeginTerminate, StopReason: v1alpha1.StopTerminated, Reason: "instance is shutting down"}
	if o.Node.State == v1alpha1.StateWarmup {
		d.Failure = Vanished
	}
	return d
}

// vanished: somebody else, or the cloud, has terminated the instance.
func vanished(o Observation) Decision {
	d := do(DeleteNode, "instance is terminated")
	if o.Node.State == v1alpha1.StateWarmup {
		d.Failure = Vanished
	}
	if o.Instance.Absent { // where the Node is kept no event leads back here
		d.Reason, d.After = "the cloud does not know the instance", AbsentAgain
	}
	return d
}

// dead reports whether the machine of a running node died: nothing was heard of its kubelet for scaleUp.readyTimeout, and
// every pod on it was asked to end and has not ended.
func dead(o Observation, now time.Time) bool {
	return o.Instance.State == provider.InstanceRunning && o.Node.Silent && o.Counting > 0 && o.Overdue == o.Counting &&
		!o.Unreported.IsZero() && now.Sub(o.Unreported) >= o.Policy.ReadyTimeout
}
