package lifecycle

import "time"

// since is from when a deadline counts. The written time is that of a wall clock, here or on
// another machine, and may be hours off: if it alone counted, a stepped clock would end every step.
func (o *Observation) since(written time.Time) time.Time {
	if o.StepObservedAt.IsZero() {
		return written
	}
	return o.StepObservedAt
}

// written is when the node's present step began. The clock that wrote the time may be ahead of
// ours: the step began when this process first saw it, at the latest.
func (o *Observation) written(t time.Time) time.Time {
	if o.StepObservedAt.IsZero() || t.Before(o.StepObservedAt) {
		return t
	}
	return o.StepObservedAt
}

// isConsistent reports whether the cloud was asked long enough after the given moment for its
// answer to show what Stratos did then.
func isConsistent(o *Observation, since time.Time) bool {
	return o.Instance.Seen.After(since.Add(ConsistencyWait))
}

// predatesProcess reports whether the intent is older than this process. The process that wrote it
// may have ended before its call, so Stratos repeats the call at once: pods wait for it. Where the
// first call was made and only the cloud's reads lag, the second has no effect.
func predatesProcess(o *Observation, intent time.Time) bool { return intent.Before(o.ProcessStart) }

// until is the time left, at least a second so that a deadline in the past never spins.
func until(t, now time.Time) time.Duration { return max(t.Sub(now), time.Second) }
