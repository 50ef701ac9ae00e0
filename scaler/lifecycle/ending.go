package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// shuttingDown: the instance is being terminated, and its guest may go on for minutes. Its Node
// stays, closed to pods, as long as its kubelet reports.
func shuttingDown(o *Observation) Decision {
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

// instanceGone: the cloud has ended the instance, or does not know it any more.
func instanceGone(o *Observation) Decision {
	switch {
	case o.Node != nil:
		return vanished(o)
	case o.EndUnexplained:
		return Decision{Action: RecordFailure, Failure: Vanished, Reason: "terminated before its Node registered"}
	}
	return wait("instance is terminated", 0)
}

// vanished removes the Node of an instance that has ended.
func vanished(o *Observation) Decision {
	d := do(DeleteNode, "instance is terminated")
	if o.Node.State == v1alpha1.StateWarmup {
		d.Failure = Vanished
	}
	if o.Instance.Absent { // where the Node is kept no event leads back here
		d.Reason, d.After = "the cloud does not know the instance", AbsentAgain
	}
	return d
}

// dead reports whether the machine of a running node died: its kubelet has not reported for
// scaleUp.readyTimeout, and every workload pod on it is past its grace. A stop by another client
// that hangs does not end by itself either.
func dead(o *Observation, now time.Time) bool {
	overdue := o.WorkloadPods > 0 && o.OverduePods == o.WorkloadPods
	up := o.Instance.State == provider.InstanceRunning || o.Instance.State == provider.InstanceStopping
	return up && o.Node.Silent && overdue && !o.Unreported.IsZero() && now.Sub(o.Unreported) >= o.Policy.ReadyTimeout
}

func terminating(o *Observation, now time.Time) Decision {
	over := o.Policy.Bounded && drainsFor(o, now) >= o.Policy.TerminationGrace
	late := drainsFor(o, now) >= o.Policy.DrainTimeout
	switch {
	case o.WorkloadPods == 0:
		return drained(o, late)
	case o.Policy.Paused && canRunAgain(o):
		return do(CancelStop, "the NodePool is paused")
	case o.OverduePods == o.WorkloadPods && kubeletLost(o):
		return do(Terminate, "its pods have outstayed their grace, and no kubelet is there to end them")
	case over && o.OverduePods == o.WorkloadPods:
		return do(Terminate, "disruption.terminationGracePeriod has passed, and its pods do not end")
	case over:
		return Decision{
			Action: DeletePods, Reason: "disruption.terminationGracePeriod has passed", After: 2 * time.Second,
		}
	case late && !o.Policy.Bounded && returnsToRunning(o):
		return do(AbandonDrain, "not drained within scaleDown.drainTimeout")
	}
	return Decision{Action: Drain, Reason: "draining before termination", After: 2 * time.Second}
}

// drained: no workload pod is left on a node that is to be terminated.
func drained(o *Observation, late bool) Decision {
	if o.Attached > 0 && !late {
		return wait("volumes are still attached", time.Second)
	}
	return do(Terminate, "drained")
}

// drainsFor is how long the node has been terminating; negative where that is not recorded.
func drainsFor(o *Observation, now time.Time) time.Duration {
	if o.Node.StoppingSince.IsZero() {
		return -1
	}
	return now.Sub(o.since(o.Node.StoppingSince))
}

// kubeletLost reports whether no kubelet can end the node's pods: the instance is stopped, or its
// kubelet does not report. Stratos does not wait for pods past their grace then, because no kubelet
// would ever report their end.
func kubeletLost(o *Observation) bool {
	return o.Instance.State == provider.InstanceStopped || o.Node.Silent
}

// canRunAgain reports whether nothing is wrong with a node that is drained to be terminated: it is
// replaced for its age or its template or because a person asked for it, or its pool is being
// deleted.
func canRunAgain(o *Observation) bool {
	wanted := isReplaced(o) || o.Node.Stop.Reason == v1alpha1.StopDeleted
	return wanted && o.Policy.Exists && o.Instance.State == provider.InstanceRunning && o.Node.Ready
}

// returnsToRunning reports whether a node that cannot be drained goes back to running, to be
// drained again later: one that is replaced though nothing is wrong with it. The drains of nodes of
// a deleted pool and of failed instances go on.
func returnsToRunning(o *Observation) bool {
	return !o.Policy.ends() && isReplaced(o)
}

// isReplaced reports whether a node that could go on running is drained to be replaced.
func isReplaced(o *Observation) bool {
	return o.Node.Stop.Reason.TakesInUse() || o.Node.Stop.Reason == v1alpha1.StopDrift
}
