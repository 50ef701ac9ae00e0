package decide

import "time"

const (
	// burstGap is the longest time between two claims of one burst.
	burstGap = 10 * time.Second
	// graceMost bounds for how long a scheduler that is still at its first pass over a burst keeps
	// claims from being overdue.
	graceMost = 5 * time.Minute
)

// burst is what claims share that were made one soon after the other: one scheduler works them off
// one after the other, and those at the end of a large one are asked about long after their nodes
// run.
type burst struct {
	// last is when the last of the claims was made.
	last time.Time
	// progress is when one of their pods was last asked about for the first time since its node runs,
	// or bound.
	progress time.Time
}

// currentBurst is the burst of a claim that is made now.
func (l *Claims) currentBurst(now time.Time) *burst {
	if l.burst == nil || now.Sub(l.burst.last) > burstGap {
		l.burst = &burst{}
	}
	l.burst.last = now
	return l.burst
}

// ask takes in that the scheduler asks about the claimed pod.
func (c *Claim) ask(now time.Time) {
	if !c.RunningSince.IsZero() && c.LastAsked.Before(c.RunningSince) {
		c.burst.progress = now
	}
	c.LastAsked, c.Ahead = now, false
}

// overdue reports whether the pod should have been bound to its running node by now.
func (c *Claim) overdue(now time.Time) bool {
	if c.ToCome() || c.nominated || c.RunningSince.IsZero() || now.Sub(c.RunningSince) < claimGrace {
		return false
	}
	return now.Sub(c.burst.progress) >= claimGrace || now.Sub(c.RunningSince) >= graceMost
}
