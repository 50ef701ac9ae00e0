package pool

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// slotRetention is how long a launch slot stays on its pool after this process first knew of its
// instance: longer than the cloud's lists lag and another process's last sweep is old. Who took
// over in that time, or leads as well, would see neither the slot nor the instance, and launch one
// more.
const slotRetention = inventory.SweepEvery + inventory.FastFor

// launches remembers since when the instances are known whose slots stand on the pools. It is lost
// with the process; then the sweeps tell again, and of what they do not show any more the cloud is
// asked under the same token. The zero value is ready.
type launches struct {
	// mu guards pools.
	mu sync.Mutex
	// pools are by UID: another pool of the same name counts its slots anew.
	pools map[types.UID]*poolLaunches
}

// poolLaunches is what is remembered of one pool's launches.
type poolLaunches struct {
	slots map[int64]*slotRecord
	// refusal is the last refusal that is the same for every launch of the pool.
	refusal launchRefusal
	// last is the highest slot that this process saw written on the pool, -1 for none.
	last int64
}

// slotRecord is what is remembered of one launch slot.
type slotRecord struct {
	// known is since when its instance is known, zero while it is not.
	known time.Time
	// ended is since when it is known that nothing was launched and nothing will be: the cloud keeps
	// the token of a refused launch with its parameters, so the next attempt has a new number. Zero
	// where that is not known.
	ended time.Time
	// cold: it was reserved for pending pods, and its instance is not known yet.
	cold bool
	// unasked: this process reserved it, and has not asked the cloud for it.
	unasked bool
}

// expire forgets what no decision needs any more. Pending tells whether the slot stands on the
// pool, newer that it may not show there yet.
func (r *slotRecord) expire(pending, newer bool, now time.Time) {
	if now.Sub(r.known) >= 4*slotRetention {
		r.known = time.Time{}
	}
	if !pending && now.Sub(r.ended) >= 4*slotRetention {
		r.ended = time.Time{}
	}
	if !pending && !newer {
		r.cold, r.unasked = false, false
	}
}

// of returns what is remembered of the pool. The caller holds mu.
func (l *launches) of(pool types.UID) *poolLaunches {
	p := l.pools[pool]
	if p == nil {
		p = &poolLaunches{slots: map[int64]*slotRecord{}, last: -1}
		if l.pools == nil {
			l.pools = map[types.UID]*poolLaunches{}
		}
		l.pools[pool] = p
	}
	return p
}

// slot returns what is remembered of the slot. The caller holds the mutex of the launches.
func (p *poolLaunches) slot(slot int64) *slotRecord {
	r := p.slots[slot]
	if r == nil {
		r = &slotRecord{}
		p.slots[slot] = r
	}
	return r
}

// note remembers that the slot's instance is known, and reports, once, that it was reserved for
// pending pods.
func (l *launches) note(pool types.UID, slot int64, now time.Time) (cold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(pool).slot(slot)
	cold, r.cold = r.cold, false
	if r.known.IsZero() {
		r.known = now
	}
	return cold
}

// end remembers that the slot's launch was refused and is not retried.
func (l *launches) end(pool types.UID, slot int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(pool).slot(slot).ended = now
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

// reserved remembers slots that were written on the pool, the last so many of them for pending
// pods.
func (l *launches) reserved(pool types.UID, slots []int64, cold int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	for at, slot := range slots {
		r := p.slot(slot)
		r.unasked, r.cold = true, at >= len(slots)-cold
	}
}

// ask remembers that the cloud is asked for the slot, and reports whether that is for the first
// time.
func (l *launches) ask(pool types.UID, slot int64) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(pool).slot(slot)
	first, r.unasked = r.unasked, false
	return first
}

// giveBack ends up to n slots that the cloud was not asked for, the newest first, and reports
// whether there were any.
func (l *launches) giveBack(pool types.UID, n int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(pool)
	unasked := slices.Sorted(maps.Keys(p.slots))
	unasked = slices.DeleteFunc(unasked, func(slot int64) bool { return !p.slots[slot].unasked })
	newest := unasked[max(0, len(unasked)-max(0, n)):]
	for _, slot := range newest {
		p.slots[slot].unasked, p.slots[slot].ended = false, now
	}
	return len(newest) > 0
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
	for slot, r := range p.slots {
		known[slot], ended[slot] = !r.known.IsZero(), !r.ended.IsZero()
		over[slot] = known[slot] && now.Sub(r.known) >= slotRetention && !unseen[slot]
		r.expire(slices.Contains(all.Pending, slot), slot >= all.Next, now)
		if *r == (slotRecord{}) {
			delete(p.slots, slot)
		}
	}
	kept := all.Settle(ended)
	dropped := len(all.Pending) - len(kept.Pending)
	kept = kept.Settle(over)
	open := kept.Settle(known).Pending
	first := slices.DeleteFunc(slices.Clone(open), func(slot int64) bool { return !interrupted[slot] })
	rest := slices.DeleteFunc(open, func(slot int64) bool { return interrupted[slot] })
	return slots{Slots: kept, open: slices.Concat(first, rest), interrupted: len(first), ended: dropped, cold: cold}
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
