package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func running(o *Observation, now time.Time) Decision {
	n := o.Node
	inUse := o.inUse()
	switch {
	case o.Instance.State == provider.InstanceStopped && isConsistent(o, o.written(n.Running)):
		return do(ToStandby, "stopped by another client")
	case dead(o, now):
		return do(Fence,
			"its kubelet has not reported for scaleUp.readyTimeout, and its pods have outstayed their grace")
	case o.Recycle != "" && !n.DoNotDisrupt && (!inUse || drainsInUse(o, now)):
		return recycle(o)
	case inUse:
		return runningInUse(o)
	}
	return runningEmpty(o, now)
}

// inUse reports whether pods keep the node running, or are about to.
func (o *Observation) inUse() bool { return o.WorkloadPods > 0 || o.Claims > 0 }

// drainsInUse reports whether workload pods do not keep the node from being replaced now.
func drainsInUse(o *Observation, now time.Time) bool {
	return o.Recycle.TakesInUse() && !now.Before(drainsAgain(o))
}

func runningInUse(o *Observation) Decision {
	switch {
	case !o.Node.EmptySince.IsZero():
		return do(MarkInUse, "in use again")
	case o.WorkloadPods > 0:
		return wait("in use", 0)
	}
	// A claim ends without any event on this node: reconcile again.
	return wait("claimed by pending pods", 5*time.Second)
}

func runningEmpty(o *Observation, now time.Time) Decision {
	n, again := o.Node, drainsAgain(o)
	switch {
	case !o.Policy.ScaleDown:
		return wait("empty, and scale-down is disabled", 0)
	case n.DoNotDisrupt:
		return wait("empty, and annotated not to be disrupted", 0)
	case o.Attached > 0 && now.Before(again):
		return wait("empty, and volumes that kept it from its last stop are still attached",
			min(until(again, now), time.Minute))
	case n.EmptySince.IsZero(), n.EmptySince.After(now):
		// A clock that is ahead of ours wrote a time that is still to come.
		return do(MarkEmpty, "empty")
	case now.Sub(n.EmptySince) < o.Policy.EmptyTTL:
		return wait("empty, waiting for emptyNodeTTL", until(n.EmptySince.Add(o.Policy.EmptyTTL), now))
	}
	return Decision{Action: BeginStop, StopReason: v1alpha1.StopEmpty, Reason: "empty for emptyNodeTTL"}
}
