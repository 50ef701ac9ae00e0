package scaler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/scaler/plan"
)

// slotRetention is how long a launch slot stays on its pool after this process first knew of its
// instance: longer than the cloud's lists lag and another process's last sweep is old. Who took
// over in that time, or leads as well, would see neither the slot nor the instance, and launch one
// more.
const slotRetention = sweepEvery + fastFor

// launches remembers since when the instances are known whose slots stand on the pools. It is lost
// with the process; then the sweeps tell again, and of what they do not show any more the cloud is
// asked under the same token. The zero value is ready.
type launches struct {
	// mu guards pools.
	mu sync.Mutex
	// pools are by UID: another pool of the same name counts its slots anew.
	pools map[types.UID]*poolLaunches
}

// poolLaunches is what is remembered of one pool's launches, by their slots.
type poolLaunches struct {
	// known is since when the instance is known.
	known map[int64]time.Time
	// ended is since when it is known that nothing was launched and nothing will be: the cloud
	// keeps the token of a refused launch with its parameters, so the next attempt has a new
	// number.
	ended map[int64]time.Time
	// cold are the slots that were reserved for pending pods and whose instance is not known yet.
	cold map[int64]bool
	// unasked are the slots that this process reserved and has not asked the cloud for.
	unasked map[int64]bool
	// refusal is the last refusal that is the same for every launch of the pool.
	refusal launchRefusal
	// last is the highest slot that this process saw written on the pool, -1 for none.
	last int64
}

// of returns what is remembered of the pool. The caller holds mu.
func (l *launches) of(pool types.UID) *poolLaunches {
	p := l.pools[pool]
	if p == nil {
		p = &poolLaunches{known: map[int64]time.Time{}, ended: map[int64]time.Time{}, cold: map[int64]bool{},
			unasked: map[int64]bool{}, last: -1}
		if l.pools == nil {
			l.pools = map[types.UID]*poolLaunches{}
		}
		l.pools[pool] = p
	}
	return p
}

// note remembers that the slot's instance is known, and reports, once, that it was reserved for
// pending pods.
func (l *launches) note(pool types.UID, slot int64, now time.Time) (cold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	cold = p.cold[slot]
	delete(p.cold, slot)
	if _, ok := p.known[slot]; !ok {
		p.known[slot] = now
	}
	return cold
}

// end remembers that the slot's launch was refused and is not retried.
func (l *launches) end(pool types.UID, slot int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(pool).ended[slot] = now
}

// used remembers that slots up to this one are written on the pool.
func (l *launches) used(pool types.UID, slot int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	p.last = max(p.last, slot)
}

// last is the highest slot that this process saw written on the pool; -1 for none.
func (l *launches) last(pool types.UID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(pool).last
}

// slots are the launch slots that stand on a pool. Open are those of which no instance is known
// here, or only one whose launch was interrupted.
type slots struct {
	plan.Slots
	open []int64
	// interrupted are the first of the open ones: their instances exist, and count among the pool's.
	interrupted int
	// ended counts the slots of refused launches that were dropped.
	ended int
	// cold is how many instances of pending pods a sweep has shown whose launch had no answer.
	cold int
}

// settle drops the slots that have stood there long enough, and tells which of the rest are open.
// seen are those that the sweeps have shown; unseen those of instances that a launch answered and
// no sweep has shown yet, which stay, so that the next process asks for them again; interrupted
// those of instances whose launch is not finished: as long as the slot is there, it is asked
// for again.
func (l *launches) settle(pool types.UID, all plan.Slots, seen, unseen, interrupted map[int64]bool,
	now time.Time) slots {
	cold := 0
	for _, slot := range all.Pending {
		if seen[slot] && l.note(pool, slot, now) {
			cold++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	known, over, ended := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for slot, since := range p.known {
		known[slot], over[slot] = true, now.Sub(since) >= slotRetention && !unseen[slot]
		forgetOld(p.known, slot, since, now)
	}
	for slot, since := range p.ended {
		ended[slot] = true
		if !slices.Contains(all.Pending, slot) {
			forgetOld(p.ended, slot, since, now)
		}
	}
	for _, slots := range []map[int64]bool{p.cold, p.unasked} {
		maps.DeleteFunc(slots, func(slot int64, _ bool) bool { // a newer slot may not show on the pool yet
			return slot < all.Next && !slices.Contains(all.Pending, slot)
		})
	}
	kept := all.Settle(ended)
	dropped := len(all.Pending) - len(kept.Pending)
	kept = kept.Settle(over)
	open := kept.Settle(known).Pending
	first := slices.DeleteFunc(slices.Clone(open), func(slot int64) bool { return !interrupted[slot] })
	rest := slices.DeleteFunc(open, func(slot int64) bool { return interrupted[slot] })
	return slots{Slots: kept, open: slices.Concat(first, rest), interrupted: len(first), ended: dropped, cold: cold}
}

// forgetOld forgets a slot that no cache shows on the pool any more.
func forgetOld(slots map[int64]time.Time, slot int64, since, now time.Time) {
	if now.Sub(since) >= 4*slotRetention {
		delete(slots, slot)
	}
}

// reserve adds n slots, which are open.
func (s slots) reserve(n int32) slots {
	more := s.Slots.Reserve(n)
	open := append(slices.Clone(s.open), more.Pending[len(s.Pending):]...)
	return slots{Slots: more, open: open, interrupted: s.interrupted, ended: s.ended}
}

// forget drops a pool that is gone.
func (l *launches) forget(pool types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pools, pool)
}
