package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

func standby(o *Observation, now time.Time) Decision {
	switch o.Instance.State {
	case provider.InstanceStopped:
		return standbyStopped(o, now)
	case provider.InstanceRunning:
		return standbyRunning(o, now)
	case provider.InstanceStopping:
		if o.WorkloadPods == 0 && o.Claims == 0 && shownFor(o, now) >= ForceStopAfter {
			return do(ForceStop, "a stop that another client asked for hangs")
		}
	default:
	}
	return standingBy(o, now)
}

const otherReservations = "its class names other capacity reservations than its instance is set to"

func standbyStopped(o *Observation, now time.Time) Decision {
	switch {
	case o.Node.Ready: // a start that opens it would rely on that report
		return do(RecordReports, "its kubelet has reported since it was stopped: another client started and stopped it")
	case o.WorkloadPods > 0:
		return startForBound(o, now)
	case o.Recycle != "" && o.Claims == 0:
		return recycle(o)
	case o.Refresh && o.Claims == 0:
		return do(WarmAgain, o.Why)
	case o.ReturnTo != "" && o.Claims == 0:
		return do(ReturnType, "its class's first type "+o.ReturnTo+" may be had again")
	case o.Reservation != nil && o.Claims == 0:
		return do(SetReservation, otherReservations)
	case o.DeletingPods > 0:
		return do(DeleteLeft, "pods that are being deleted are on the stopped node")
	}
	return standingBy(o, now)
}

// standbyRunning decides about an instance that Stratos did not start. Its kubelet gets as much
// time to report as after a start by Stratos.
func standbyRunning(o *Observation, now time.Time) Decision {
	late := shownFor(o, now) >= o.Policy.ReadyTimeout
	switch {
	case opens(o.Node):
		return do(ToRunning, "started by another client")
	case late && o.WorkloadPods > 0:
		return do(RequestStart, "a pod is bound to the node, which another client started and which does not report")
	case late && o.Claims == 0:
		return do(ForceStop, "started by another client, and not Ready within scaleUp.readyTimeout")
	}
	return standingBy(o, now)
}

func standingBy(o *Observation, now time.Time) Decision {
	if backsOffTooLong(o, now) {
		return do(LimitBackoff, "backs off for longer than any failed start does")
	}
	return wait("standing by", 0)
}

// startForBound starts the stopped node for a pod that is bound to it. The pod cannot go anywhere
// else. During a backoff the cloud would refuse again, and each attempt writes to the Node.
func startForBound(o *Observation, now time.Time) Decision {
	switch left := o.Node.UnavailableUntil.Sub(now); {
	case o.Claims == 0 && o.Reservation != nil && o.Reservation.WithoutOnDemand():
		return do(SetReservation, otherReservations) // the start would not leave the one that it is set to
	case backsOffTooLong(o, now):
		return do(LimitBackoff, "backs off for longer than any failed start does")
	case left > 0:
		return wait("a pod is bound to the stopped node, which backs off after a failed start", left)
	}
	return do(RequestStart, "a pod is bound to the stopped node")
}

// backsOffTooLong: the backoff was written by a clock that is ahead of ours.
func backsOffTooLong(o *Observation, now time.Time) bool {
	return o.Node.UnavailableUntil.After(now.Add(MaxBackoff))
}

// shownFor is how long the cloud has shown the instance in its state; negative where no sweep has.
func shownFor(o *Observation, now time.Time) time.Duration {
	if o.Instance.Since.IsZero() {
		return -1
	}
	return now.Sub(o.Instance.Since)
}
