// Package inventory knows the instances of the cluster: the sweep lists them, repairs their tags
// and wakes the reconcilers of those that changed.
package inventory

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

// StateOf is the state by which an instance counts: that of its Node, which may be nil.
func StateOf(e Entry, n *corev1.Node) v1alpha1.NodeState {
	if e.State == provider.InstanceShuttingDown {
		return v1alpha1.StateTerminating
	}
	if n == nil {
		return v1alpha1.StateWarmup
	}
	return cmp.Or(v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]), v1alpha1.StateWarmup)
}

// TagLaunch holds the launch slot of an instance, and after a dot the UID of its pool.
const TagLaunch = "stratos.sh/launch"

// Entry is an instance as a sweep, or a call of ours, last showed it.
type Entry struct {
	provider.Instance
	// Seen is when the call that showed it was made.
	Seen time.Time
	// Since is when a sweep first showed the state that it is in; zero where only a call of ours
	// showed it.
	Since time.Time
	// Up is when a sweep last showed it pending or running; zero where none did.
	Up time.Time
	// LastPool is the pool that its tags named before that tag was removed; empty where they
	// name one.
	LastPool v1alpha1.PoolName
	// ConfirmedGone: the cloud was asked about this very instance, and knows it no more.
	ConfirmedGone bool
	// lived: it was not terminated yet when this process first knew of it.
	lived bool
	// Registered: a Node of it was seen. endExplained: this process asked for its end, or has reported
	// it.
	Registered, EndExplained bool
	// Absent: it counts as gone because the cloud does not know it, not because the cloud says so.
	Absent bool
	// unseenFor is how long its absence from lists proves nothing, for an instance that a launch
	// answered and no list has shown yet.
	unseenFor time.Duration
	// refusal is the last stop or termination that the cloud refused while the instance is in this
	// state.
	refusal Refusal
}

// Pool is the pool that the instance's tags name.
func (e Entry) Pool() v1alpha1.PoolName { return v1alpha1.PoolName(e.Tags[v1alpha1.LabelPool]) }

// owningPool is the pool that the instance counts for: also where its tag was just removed
// away, which is about to be written again.
func (e Entry) owningPool() v1alpha1.PoolName { return cmp.Or(e.Pool(), e.LastPool) }

// EndUnexplained reports whether the instance ended before it had a Node, not by this process, and
// no event reports it. One that had ended when this process first saw it may have been ended by the
// process before.
func (e Entry) EndUnexplained() bool { return e.Gone() && e.lived && !e.Registered && !e.EndExplained }

// Gone reports whether nothing is left of the instance.
func (e Entry) Gone() bool { return e.State == provider.InstanceTerminated }

// Ending reports whether the instance is gone or being terminated.
func (e Entry) Ending() bool { return e.Gone() || e.State == provider.InstanceShuttingDown }

// Inventory is what the sweeps have shown. It is safe for concurrent use.
type Inventory struct {
	// mu guards the fields below.
	mu        sync.RWMutex
	instances map[v1alpha1.InstanceID]Entry
	swept     time.Time
	// foreign are the instances of Nodes that the cloud knows as those of another owner.
	foreign map[v1alpha1.InstanceID]bool
	// Absences are the Nodes whose instances the cloud does not know. It has a lock of its own.
	Absences *absences
	// Strangers are instances that carry the cluster's name and are another's; it has a lock of its
	// own.
	Strangers strangers
	// unsure are those that no list shows and that could not be described.
	unsure map[v1alpha1.InstanceID]bool
	// Regions are those that the last sweep lacked; they have a lock of their own.
	Regions Regions
}

// New returns an inventory that no sweep has filled yet.
func New() *Inventory {
	return &Inventory{
		instances: map[v1alpha1.InstanceID]Entry{}, foreign: map[v1alpha1.InstanceID]bool{}, Absences: newAbsences(),
	}
}

// Replace takes in a whole sweep that was asked for at the given time, and returns the ids of
// instances that are new or changed. An instance that is missing is gone, unless a call showed it
// so recently that this list may lag behind it. That is measured by our clock alone: the cloud's
// launch time may be seconds apart from it.
func (i *Inventory) Replace(list []*provider.Instance, asked time.Time) []v1alpha1.InstanceID {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.swept = asked
	next := make(map[v1alpha1.InstanceID]Entry, len(list))
	var changed []v1alpha1.InstanceID
	for _, instance := range list {
		old, ok := i.instances[instance.ID]
		if !ok || old.State != instance.State {
			changed = append(changed, instance.ID)
		}
		next[instance.ID] = listedEntry(old, instance, asked)
	}
	for id, old := range i.instances {
		if _, ok := next[id]; ok || old.Gone() {
			continue
		}
		if i.Regions.lacks(&old.Instance) || i.unsure[id] {
			next[id] = old
			continue
		}
		if asked.Sub(old.Seen) > max(lifecycle.ConsistencyWait, old.unseenFor) {
			old.State, old.Seen, old.Absent = provider.InstanceTerminated, asked, true
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
func listedEntry(old Entry, instance *provider.Instance, asked time.Time) Entry {
	e := Entry{Instance: *instance, Seen: asked, Since: asked}
	if old.State == instance.State && !old.Since.IsZero() {
		e.Since = old.Since
	}
	if old.refusal.holds(old.State, instance.State) {
		e.refusal = old.refusal
	}
	e.lived = old.lived || !e.Gone()
	e.Registered, e.EndExplained = old.Registered, old.EndExplained
	if e.Up = old.Up; instance.State == provider.InstancePending || instance.State == provider.InstanceRunning {
		e.Up = asked
	}
	if e.Pool() == "" {
		e.LastPool = old.owningPool()
	}
	return e
}

// missing returns the instances, sorted by id, that are not in the list although it was asked for
// long enough after the last news of them.
func (i *Inventory) missing(list []*provider.Instance, asked time.Time) []Entry {
	i.mu.RLock()
	defer i.mu.RUnlock()
	listed := make(map[v1alpha1.InstanceID]bool, len(list))
	for _, l := range list {
		listed[l.ID] = true
	}
	var out []Entry
	for id, e := range i.instances {
		if !listed[id] && !e.Gone() && asked.Sub(e.Seen) > lifecycle.ConsistencyWait && !i.Regions.lacks(&e.Instance) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// Expect adds an instance that was launched for the pool just now and that the cloud's reads may
// not show yet. It is the pool's also where the tag was removed by then that says
// so: the launch's token is proof. Until a list shows it, it counts for unseenFor.
func (i *Inventory) Expect(pool v1alpha1.PoolName, instance *provider.Instance, now time.Time,
	unseenFor time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.instances[instance.ID]
	if !ok {
		e = Entry{Instance: *instance, Seen: now, unseenFor: unseenFor}
		e.lived = !e.Gone()
	}
	if e.owningPool() == "" {
		e.LastPool = pool
	}
	i.instances[instance.ID] = e
}

// Note changes what is known of the instance in addition to what the cloud says.
func (i *Inventory) Note(id v1alpha1.InstanceID, change func(*Entry)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		change(&e)
		i.instances[id] = e
	}
}

// EndUnexplained reports whether an instance of the pool ended without an event.
func (i *Inventory) EndUnexplained(pool v1alpha1.PoolName) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if e.owningPool() == pool && e.EndUnexplained() {
			return true
		}
	}
	return false
}

// Stopping notes that the cloud accepted a stop, so that it is not asked again before the next
// sweep.
func (i *Inventory) Stopping(id v1alpha1.InstanceID, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// Pending too: of a machine that boots between two sweeps we never see more before we stop it.
	if e, ok := i.instances[id]; ok && (e.State == provider.InstanceRunning || e.State == provider.InstancePending) {
		e.State, e.Seen, e.Since = provider.InstanceStopping, now, now
		i.instances[id] = e
	}
}

// Starting notes that a start was asked for again, so that it is not asked for once more before the
// next sweep.
func (i *Inventory) Starting(id v1alpha1.InstanceID, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok && e.State == provider.InstanceStopped {
		e.State, e.Seen, e.Since = provider.InstancePending, now, now
		i.instances[id] = e
	}
}

// Tagged notes that the cloud accepted tags, so that they are not written again before a sweep
// shows them.
func (i *Inventory) Tagged(id v1alpha1.InstanceID, tags map[string]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		e.Instance = *withTags(&e.Instance, tags) // readers hold the old map
		i.instances[id] = e
	}
}

// Get returns one instance.
func (i *Inventory) Get(id v1alpha1.InstanceID) (Entry, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	e, ok := i.instances[id]
	return e, ok
}

// LastSweep is when the last complete sweep was asked for; zero before the first.
func (i *Inventory) LastSweep() time.Time {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.swept
}

// Settle counts the instances of the pool's Nodes for the pool where nothing else says whose they
// are: their tag was taken before this process could see it. Without it another would be launched
// in the place of each until the tag is written again.
func (i *Inventory) Settle(pool v1alpha1.PoolName, nodes []corev1.Node) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k := range nodes {
		id := InstanceOf(&nodes[k])
		e, ok := i.instances[id]
		if !ok || e.ProviderID != nodes[k].Spec.ProviderID {
			continue
		}
		if e.Registered = true; e.owningPool() == "" {
			e.LastPool = pool
		}
		i.instances[id] = e
	}
}

// Of returns the pool's instances that are not gone, sorted by id.
func (i *Inventory) Of(pool v1alpha1.PoolName) []Entry {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var out []Entry
	for _, e := range i.instances {
		if e.owningPool() == pool && !e.Gone() {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// LastSlot is the highest launch number of the pool's instances, those that are gone included; -1
// for none.
func (i *Inventory) LastSlot(pool v1alpha1.PoolName, uid types.UID) int64 {
	finished, unfinished := i.SlotsOf(pool, uid)
	last := int64(-1)
	for _, slots := range []map[int64]bool{finished, unfinished} {
		for slot := range slots {
			last = max(last, slot)
		}
	}
	return last
}

// SlotsOf returns the launch slots of the pool's instances, those that are gone included, by
// whether the launch is finished. Instances of an earlier pool of the same name, which may still be
// listed, had slots of the same numbers, which are left out. Of one whose tag names no UID we only
// know the name.
func (i *Inventory) SlotsOf(pool v1alpha1.PoolName, uid types.UID) (finished, unfinished map[int64]bool) {
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

// UnseenSlots returns the launch slots of the pool's instances that no sweep has shown yet.
func (i *Inventory) UnseenSlots(pool v1alpha1.PoolName, uid types.UID) map[int64]bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	unseen := map[int64]bool{}
	for _, e := range i.instances {
		if slot, ok := e.slotOf(pool, uid); ok && e.unseenFor > 0 && !e.Gone() {
			unseen[slot] = true
		}
	}
	return unseen
}

// slotOf is the launch slot of the instance within the pool; false where it has none there.
func (e Entry) slotOf(pool v1alpha1.PoolName, uid types.UID) (int64, bool) {
	number, of, told := strings.Cut(e.Tags[TagLaunch], ".")
	slot, err := strconv.ParseInt(number, 10, 64)
	return slot, err == nil && e.owningPool() == pool && (!told || of == string(uid))
}

// InTransition reports whether some instance is on its way between running and stopped.
func (i *Inventory) InTransition() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if e.State == provider.InstancePending || e.State == provider.InstanceStopping {
			return true
		}
	}
	return false
}
