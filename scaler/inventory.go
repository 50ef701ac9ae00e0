package scaler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
)

// tagLaunch holds the launch slot of an instance, and after a dot the UID of its pool.
const tagLaunch = "stratos.sh/launch"

// entry is an instance as a sweep, or a call of ours, last showed it.
type entry struct {
	provider.Instance
	// seen is when the call that showed it was made.
	seen time.Time
	// since is when a sweep first showed the state that it is in; zero where only a call of ours
	// showed it.
	since time.Time
	// up is when a sweep last showed it pending or running; zero where none did.
	up time.Time
	// lastPool is the pool that its tags named before that tag was removed; empty where they
	// name one.
	lastPool v1alpha1.PoolName
	// confirmedGone: the cloud was asked about this very instance, and knows it no more.
	confirmedGone bool
	// lived: it was not terminated yet when this process first knew of it.
	lived bool
	// registered: a Node of it was seen. endExplained: this process asked for its end, or has reported
	// it.
	registered, endExplained bool
	// absent: it counts as gone because the cloud does not know it, not because the cloud says so.
	absent bool
	// unseenFor is how long its absence from lists proves nothing, for an instance that a launch
	// answered and no list has shown yet.
	unseenFor time.Duration
	// refusal is the last stop or termination that the cloud refused while the instance is in this
	// state.
	refusal refusal
}

// pool is the pool that the instance's tags name.
func (e entry) pool() v1alpha1.PoolName { return v1alpha1.PoolName(e.Tags[v1alpha1.LabelPool]) }

// owningPool is the pool that the instance counts for: also where its tag was just removed
// away, which is about to be written again.
func (e entry) owningPool() v1alpha1.PoolName { return cmp.Or(e.pool(), e.lastPool) }

// endUnexplained reports whether the instance ended before it had a Node, not by this process, and
// no event reports it. One that had ended when this process first saw it may have been ended by the
// process before.
func (e entry) endUnexplained() bool { return e.gone() && e.lived && !e.registered && !e.endExplained }

// gone reports whether nothing is left of the instance.
func (e entry) gone() bool { return e.State == provider.InstanceTerminated }

// ending reports whether the instance is gone or being terminated.
func (e entry) ending() bool { return e.gone() || e.State == provider.InstanceShuttingDown }

// inventory is what the sweeps have shown. It is safe for concurrent use.
type inventory struct {
	// mu guards the fields below.
	mu        sync.RWMutex
	instances map[v1alpha1.InstanceID]entry
	swept     time.Time
	// foreign are the instances of Nodes that the cloud knows as those of another owner.
	foreign map[v1alpha1.InstanceID]bool
	// absences are the Nodes whose instances the cloud does not know. It has a lock of its own.
	absences *absences
	// strangers are instances that carry the cluster's name and are another's; it has a lock of its
	// own.
	strangers strangers
	// unsure are those that no list shows and that could not be described.
	unsure map[v1alpha1.InstanceID]bool
	// regions are those that the last sweep lacked; they have a lock of their own.
	regions regions
}

// newInventory returns an inventory that no sweep has filled yet.
func newInventory() *inventory {
	return &inventory{
		instances: map[v1alpha1.InstanceID]entry{}, foreign: map[v1alpha1.InstanceID]bool{}, absences: newAbsences(),
	}
}

// replace takes in a whole sweep that was asked for at the given time, and returns the ids of
// instances that are new or changed. An instance that is missing is gone, unless a call showed it
// so recently that this list may lag behind it. That is measured by our clock alone: the cloud's
// launch time may be seconds apart from it.
func (i *inventory) replace(list []*provider.Instance, asked time.Time) []v1alpha1.InstanceID {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.swept = asked
	next := make(map[v1alpha1.InstanceID]entry, len(list))
	var changed []v1alpha1.InstanceID
	for _, instance := range list {
		old, ok := i.instances[instance.ID]
		if !ok || old.State != instance.State {
			changed = append(changed, instance.ID)
		}
		next[instance.ID] = listedEntry(old, instance, asked)
	}
	for id, old := range i.instances {
		if _, ok := next[id]; ok || old.gone() {
			continue
		}
		if i.regions.lacks(&old.Instance) || i.unsure[id] {
			next[id] = old
			continue
		}
		if asked.Sub(old.seen) > max(lifecycle.ConsistencyWait, old.unseenFor) {
			old.State, old.seen, old.absent = provider.InstanceTerminated, asked, true
		}
		next[id] = old
		changed = append(changed, id)
	}
	i.instances = next
	slices.Sort(changed)
	return changed
}

// listedEntry returns the entry of an instance as a sweep shows it. old is the one before, zero for
// a new instance.
func listedEntry(old entry, instance *provider.Instance, asked time.Time) entry {
	e := entry{Instance: *instance, seen: asked, since: asked}
	if old.State == instance.State && !old.since.IsZero() {
		e.since = old.since
	}
	if old.refusal.holds(old.State, instance.State) {
		e.refusal = old.refusal
	}
	e.lived = old.lived || !e.gone()
	e.registered, e.endExplained = old.registered, old.endExplained
	if e.up = old.up; instance.State == provider.InstancePending || instance.State == provider.InstanceRunning {
		e.up = asked
	}
	if e.pool() == "" {
		e.lastPool = old.owningPool()
	}
	return e
}

// missing returns the instances, sorted by id, that are not in the list although it was asked for
// long enough after the last news of them.
func (i *inventory) missing(list []*provider.Instance, asked time.Time) []entry {
	i.mu.RLock()
	defer i.mu.RUnlock()
	listed := make(map[v1alpha1.InstanceID]bool, len(list))
	for _, l := range list {
		listed[l.ID] = true
	}
	var out []entry
	for id, e := range i.instances {
		if !listed[id] && !e.gone() && asked.Sub(e.seen) > lifecycle.ConsistencyWait && !i.regions.lacks(&e.Instance) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// expect adds an instance that was launched for the pool just now and that the cloud's reads may
// not show yet. It is the pool's also where the tag was removed by then that says
// so: the launch's token is proof. Until a list shows it, it counts for unseenFor.
func (i *inventory) expect(pool v1alpha1.PoolName, instance *provider.Instance, now time.Time,
	unseenFor time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.instances[instance.ID]
	if !ok {
		e = entry{Instance: *instance, seen: now, unseenFor: unseenFor}
		e.lived = !e.gone()
	}
	if e.owningPool() == "" {
		e.lastPool = pool
	}
	i.instances[instance.ID] = e
}

// note changes what is known of the instance in addition to what the cloud says.
func (i *inventory) note(id v1alpha1.InstanceID, change func(*entry)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		change(&e)
		i.instances[id] = e
	}
}

// endUnexplained reports whether an instance of the pool ended without an event.
func (i *inventory) endUnexplained(pool v1alpha1.PoolName) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if e.owningPool() == pool && e.endUnexplained() {
			return true
		}
	}
	return false
}

// stopping notes that the cloud accepted a stop, so that it is not asked again before the next
// sweep.
func (i *inventory) stopping(id v1alpha1.InstanceID, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// Pending too: of a machine that boots between two sweeps we never see more before we stop it.
	if e, ok := i.instances[id]; ok && (e.State == provider.InstanceRunning || e.State == provider.InstancePending) {
		e.State, e.seen, e.since = provider.InstanceStopping, now, now
		i.instances[id] = e
	}
}

// starting notes that a start was asked for again, so that it is not asked for once more before the
// next sweep.
func (i *inventory) starting(id v1alpha1.InstanceID, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok && e.State == provider.InstanceStopped {
		e.State, e.seen, e.since = provider.InstancePending, now, now
		i.instances[id] = e
	}
}

// tagged notes that the cloud accepted tags, so that they are not written again before a sweep
// shows them.
func (i *inventory) tagged(id v1alpha1.InstanceID, tags map[string]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		e.Instance = *withTags(&e.Instance, tags) // readers hold the old map
		i.instances[id] = e
	}
}

// get returns one instance.
func (i *inventory) get(id v1alpha1.InstanceID) (entry, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	e, ok := i.instances[id]
	return e, ok
}

// lastSweep is when the last complete sweep was asked for; zero before the first.
func (i *inventory) lastSweep() time.Time {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.swept
}

// settle counts the instances of the pool's Nodes for the pool where nothing else says whose they
// are: their tag was taken before this process could see it. Without it another would be launched
// in the place of each until the tag is written again.
func (i *inventory) settle(pool v1alpha1.PoolName, nodes []corev1.Node) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k := range nodes {
		id := instanceOf(&nodes[k])
		e, ok := i.instances[id]
		if !ok || e.ProviderID != nodes[k].Spec.ProviderID {
			continue
		}
		if e.registered = true; e.owningPool() == "" {
			e.lastPool = pool
		}
		i.instances[id] = e
	}
}

// of returns the pool's instances that are not gone, sorted by id.
func (i *inventory) of(pool v1alpha1.PoolName) []entry {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var out []entry
	for _, e := range i.instances {
		if e.owningPool() == pool && !e.gone() {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// lastSlot is the highest launch number of the pool's instances, those that are gone included; -1
// for none.
func (i *inventory) lastSlot(pool v1alpha1.PoolName, uid types.UID) int64 {
	finished, unfinished := i.slotsOf(pool, uid)
	last := int64(-1)
	for _, slots := range []map[int64]bool{finished, unfinished} {
		for slot := range slots {
			last = max(last, slot)
		}
	}
	return last
}

// slotsOf returns the launch slots of the pool's instances, those that are gone included, by
// whether the launch is finished. Instances of an earlier pool of the same name, which may still be
// listed, had slots of the same numbers, which are left out. Of one whose tag names no UID we only
// know the name.
func (i *inventory) slotsOf(pool v1alpha1.PoolName, uid types.UID) (finished, unfinished map[int64]bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	finished, unfinished = map[int64]bool{}, map[int64]bool{}
	for _, e := range i.instances {
		switch slot, ok := e.slotOf(pool, uid); {
		case !ok:
		case e.Unfinished:
			unfinished[slot] = true
		default:
			finished[slot] = true
		}
	}
	return finished, unfinished
}

// unseenSlots returns the launch slots of the pool's instances that no sweep has shown yet.
func (i *inventory) unseenSlots(pool v1alpha1.PoolName, uid types.UID) map[int64]bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	unseen := map[int64]bool{}
	for _, e := range i.instances {
		if slot, ok := e.slotOf(pool, uid); ok && e.unseenFor > 0 && !e.gone() {
			unseen[slot] = true
		}
	}
	return unseen
}

// slotOf is the launch slot of the instance within the pool; false where it has none there.
func (e entry) slotOf(pool v1alpha1.PoolName, uid types.UID) (int64, bool) {
	number, of, told := strings.Cut(e.Tags[tagLaunch], ".")
	slot, err := strconv.ParseInt(number, 10, 64)
	return slot, err == nil && e.owningPool() == pool && (!told || of == string(uid))
}

// inTransition reports whether some instance is on its way between running and stopped.
func (i *inventory) inTransition() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if e.State == provider.InstancePending || e.State == provider.InstanceStopping {
			return true
		}
	}
	return false
}
