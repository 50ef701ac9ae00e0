package scaler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/scaler/plan"
)

// lingers is how long a launch slot stays on its pool after this process first knew of its instance: longer than the cloud's lists lag and another
// process's last sweep is old. Who took over in that time, or leads as well, would see neither the slot nor the instance, and launch one more.
const lingers = sweepEvery + fastFor

// launches remembers since when the instances are known whose slots stand on the pools. It is lost with the process; then the sweeps tell
// again, and of what they do not show any more the cloud is asked under the same token. The zero value is ready.
type launches struct {
	// mu guards the fields below.
	mu sync.Mutex
	// known is by the pool's UID: another pool of the same name counts its slots anew.
	known map[types.UID]map[int64]time.Time
	// cold are the slots that were reserved for waiting pods and whose instance is not known yet.
	cold map[types.UID]map[int64]bool
}

// noteCold remembers that the slots were reserved for waiting pods.
func (l *launches) noteCold(pool types.UID, slots []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, slot := range slots {
		if l.cold == nil {
			l.cold = map[types.UID]map[int64]bool{}
		}
		if l.cold[pool] == nil {
			l.cold[pool] = map[int64]bool{}
		}
		l.cold[pool][slot] = true
	}
}

// note remembers that the slot's instance is known, and reports, once, that it was reserved for waiting pods.
func (l *launches) note(pool types.UID, slot int64, now time.Time) (cold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cold = l.cold[pool][slot]
	delete(l.cold[pool], slot)
	if l.known == nil {
		l.known = map[types.UID]map[int64]time.Time{}
	}
	if l.known[pool] == nil {
		l.known[pool] = map[int64]time.Time{}
	}
	if _, ok := l.known[pool][slot]; !ok {
		l.known[pool][slot] = now
	}
	return cold
}

// slots are the launch slots that stand on a pool. Open are those of which nobody here knows an instance, or only one whose launch was interrupted.
type slots struct {
	plan.Slots
	open []int64
	// interrupted are the first of the open ones: their instances exist, and count among the pool's.
	interrupted int
	// cold is how many instances of waiting pods a sweep has shown whose launch had no answer.
	cold int
}

// settle drops the slots that have stood there long enough, and tells which of the rest are open. seen are those that the sweeps have shown;
// interrupted those of instances whose launch nobody has finished: as long as the slot is there, it is asked for again.
func (l *launches) settle(pool types.UID, all plan.Slots, seen, interrupted map[int64]bool, now time.Time) slots {
	cold := 0
	for _, slot := range all.Pending {
		if seen[slot] && l.note(pool, slot, now) {
			cold++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, over := map[int64]bool{}, map[int64]bool{}
	for slot, since := range l.known[pool] {
		known[slot], over[slot] = true, now.Sub(since) >= lingers
		if now.Sub(since) >= 4*lingers { // no cache shows it on the pool any more
			delete(l.known[pool], slot)
		}
	}
	maps.DeleteFunc(l.cold[pool], func(slot int64, _ bool) bool { // a newer slot may not show on the pool yet
		return slot < all.Next && !slices.Contains(all.Pending, slot)
	})
	kept := all.Settle(over)
	open := kept.Settle(known).Pending
	first := slices.DeleteFunc(slices.Clone(open), func(slot int64) bool { return !interrupted[slot] })
	rest := slices.DeleteFunc(open, func(slot int64) bool { return interrupted[slot] })
	return slots{Slots: kept, open: slices.Concat(first, rest), interrupted: len(first), cold: cold}
}

// reserve adds n slots, which are open.
func (s slots) reserve(n int32) slots {
	more := s.Slots.Reserve(n)
	return slots{Slots: more, open: append(slices.Clone(s.open), more.Pending[len(s.Pending):]...), interrupted: s.interrupted}
}

// forget drops a pool that is gone.
func (l *launches) forget(pool types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, pool)
	delete(l.cold, pool)
}
