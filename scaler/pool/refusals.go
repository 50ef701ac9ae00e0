package pool

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/scaler/plan"
)

// launchRefusal is a refusal that holds all launches of a pool back. The zero value holds nothing
// back.
type launchRefusal struct {
	// asked names the class, its types and the template that were refused: others are tried at once.
	asked string
	// err is what the cloud said; nil for no refusal.
	err error
	// count is how many refusals there were in a row that are the same for every launch; until is when
	// the next call may be made.
	count int32
	until time.Time
}

// heldBy returns the refusal that holds back launches of what is asked for; the zero one where none
// does.
func (l *launches) heldBy(pool types.UID, asked string, now time.Time) launchRefusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(pool).refusal
	if r.asked != asked {
		return launchRefusal{}
	}
	if r.until.Sub(now) > max(plan.LaunchBackoff(r.count), launchRetry) { // the clock was stepped back
		r.until = now
	}
	return r
}

// refuse remembers a refusal and returns when the next call may be made.
func (l *launches) refuse(pool types.UID, asked string, err error, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	if p.refusal.asked != asked {
		p.refusal = launchRefusal{asked: asked}
	}
	p.refusal.count++
	p.refusal.err, p.refusal.until = err, now.Add(plan.LaunchBackoff(p.refusal.count))
	return p.refusal.until
}

// pause holds the launches back until the given time, after a refusal of which others may know
// nothing: a zone has no capacity. Without it each write to the pool would have the launches asked
// for again.
func (l *launches) pause(pool types.UID, asked string, err error, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(pool).refusal = launchRefusal{asked: asked, err: err, until: until}
}

// accepted forgets the refusals of the pool's launches.
func (l *launches) accepted(pool types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(pool).refusal = launchRefusal{}
}
