package simcloud

import (
	"maps"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// The cloud's words for state changes, as EC2 says them.
const (
	reasonUserStop  = "Client.UserInitiatedShutdown: User initiated shutdown"
	reasonSelfStop  = "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
	reasonFellBack  = "Server.InternalError: Internal error on launch"
	reasonUserStart = ""
)

// historyKept bounds how far back lagging reads can look, and so Times.Lag.
const historyKept = 6 * time.Minute

// Instance is one instance. Who has the Book may read it; its methods change it.
type Instance struct {
	provider.Instance
	Subnet, Address string
	// StartedAt is when the last boot was accepted.
	StartedAt time.Time
	// Reserved: it runs in capacity that is reserved, and so counts against no Capacity.
	Reserved bool

	userData       string
	endsBySelfStop bool
	boot           Boot
	boots          int
	disk           *Disk
	// inOrder: the stop under way was asked of the guest, which may take its time.
	inOrder bool
	// hung: a stop that will not end by itself.
	hung bool
	// ranOn: it ran when its termination was asked for, so its guest runs on while it shuts down.
	ranOn bool
	// gone: not even the cloud remembers it; kept while lagging reads may still show it.
	gone bool
	// turn counts state changes, so that the timer of an older one does nothing.
	turn int
	// history holds what reads saw, oldest first. A nil view: absent.
	history []version
}

// Powered reports whether the instance takes up room.
func (i *Instance) Powered() bool { return !i.gone && (i.on() || i.State == provider.InstanceStopping) }

type version struct {
	at   time.Time
	view *provider.Instance
}

// Disk is what a machine keeps while it is off. Its lock guards the fields: the machine writes
// them, the Cloud's snapshot reads them.
type Disk struct {
	sync.Mutex
	// Registered: a kubelet of it has registered a Node once.
	Registered bool
	// Heartbeat is the stamp of the last report, in whole seconds as the API keeps it.
	Heartbeat time.Time
	Images    map[string]bool
}

// on reports whether the instance was started and its end was not asked for.
func (i *Instance) on() bool {
	return i.State == provider.InstancePending || i.State == provider.InstanceRunning
}

// up reports whether the guest runs. It does so while the instance is being terminated.
func (i *Instance) up() bool {
	return i.State == provider.InstanceRunning || i.State == provider.InstanceShuttingDown && i.ranOn
}

// CopyOf returns an Instance that shares nothing with i.
func CopyOf(i *provider.Instance) *provider.Instance {
	view := *i
	view.Tags = maps.Clone(i.Tags)
	return &view
}

// change sets the state, makes it visible to reads and notes it for the observer.
func (b *Book) change(inst *Instance, state provider.InstanceState, reason string) {
	inst.State, inst.StateReason = state, reason
	inst.turn++
	b.remember(inst, CopyOf(&inst.Instance))
	b.changed = append(b.changed, inst.ID)
}

// remember appends a version for lagging reads and drops those that no read can reach.
func (b *Book) remember(inst *Instance, view *provider.Instance) {
	now := time.Now()
	old := 0
	for old+1 < len(inst.history) && now.Sub(inst.history[old+1].at) > historyKept {
		old++
	}
	inst.history = append(inst.history[old:], version{at: now, view: view})
}

// Seen returns the instance as reads see it now, and since when it has been so; nil for absent. The
// result is not to be changed.
func (b *Book) Seen(id v1alpha1.InstanceID) (*provider.Instance, time.Time) {
	inst := b.instances[id]
	if inst == nil || b.unseen(inst) {
		return nil, time.Time{}
	}
	horizon := time.Now().Add(-min(b.times.Lag, historyKept))
	for i := len(inst.history) - 1; i >= 0; i-- {
		if !inst.history[i].at.After(horizon) {
			return inst.history[i].view, inst.history[i].at
		}
	}
	return nil, time.Time{}
}

// Look returns the instance and what Seen says of it. All nil where reads see none.
func (b *Book) Look(id v1alpha1.InstanceID) (*Instance, *provider.Instance, time.Time) {
	seen, since := b.Seen(id)
	if seen == nil {
		return nil, nil, since
	}
	return b.instances[id], seen, since
}

// later runs f under the lock after d, unless the instance has changed its state since.
func (b *Book) later(inst *Instance, d time.Duration, f func()) {
	turn := inst.turn
	time.AfterFunc(d, func() {
		b.write(func(*Book) {
			if inst.turn == turn && !inst.gone {
				f()
			}
		})
	})
}

// powerOn begins a boot: pending, running after a third of the boot time, the kubelet reports at
// its end.
func (b *Book) powerOn(inst *Instance, op Op) {
	t := Target{Op: op, ID: inst.ID, Zone: inst.Zone, Type: inst.Type}
	inst.boots++
	inst.StartedAt = time.Now()
	inst.hung = false
	total := b.times.Boot
	if b.times.BootSpread > 0 {
		total += time.Duration(b.random.Int64N(int64(b.times.BootSpread)))
	}
	if inst.boots == 1 {
		total += b.times.RegisterDelay
	}
	if f := b.Strike(t, FaultBootDelay); f != nil {
		total += f.Delay
	}
	inst.boot = Boot{
		Number:      inst.boots,
		ReadyAt:     time.Now().Add(total),
		Silent:      b.Strike(t, FaultKubeletSilent) != nil,
		NoNetwork:   b.Strike(t, FaultNoNetwork) != nil,
		DeviceDelay: b.times.DeviceDelay,
	}
	if f := b.Strike(t, FaultDevicesLate); f != nil {
		inst.boot.DeviceDelay = f.Delay
	}
	fallsBack := b.Strike(t, FaultStartFallsBack)
	b.change(inst, provider.InstancePending, reasonUserStart)
	b.later(inst, min(total/3, b.times.Boot/3), func() {
		if fallsBack != nil {
			b.fallBack(inst, op, fallsBack.Reason)
			return
		}
		b.change(inst, provider.InstanceRunning, "")
	})
}

// fallBack ends a boot that the cloud gave up: a start goes back to stopped, a launch ends
// terminated, as in EC2.
func (b *Book) fallBack(inst *Instance, op Op, reason string) {
	if reason == "" {
		reason = reasonFellBack
	}
	if op == OpLaunch {
		b.end(inst, reason)
		return
	}
	b.change(inst, provider.InstanceStopped, reason)
}

// powerOff begins a stop. The guest reports nothing from here on.
func (b *Book) powerOff(inst *Instance, op Op, reason string) {
	t := Target{Op: op, ID: inst.ID, Zone: inst.Zone, Type: inst.Type}
	inst.hung = b.Strike(t, FaultStopHangs) != nil
	b.change(inst, provider.InstanceStopping, reason)
	if !inst.hung {
		b.stopAfter(inst, b.times.Stop)
	}
}

// stopAfter completes a stop after d. Before the cloud says stopped, a report that was in flight
// when the power went has landed: heartbeats that are recorded at "stopped" would otherwise be
// surpassed by one from before.
func (b *Book) stopAfter(inst *Instance, d time.Duration) {
	turn, id := inst.turn, inst.ID
	told := b.observer
	time.AfterFunc(d, func() {
		if told != nil {
			told.Quiet(id)
		}
		b.write(func(*Book) {
			if inst.turn == turn && !inst.gone {
				b.change(inst, provider.InstanceStopped, inst.StateReason)
			}
		})
	})
}

// shutDown begins the end of an instance: it shuts down before it is terminated.
func (b *Book) shutDown(inst *Instance, reason string) {
	if b.times.ShuttingDown <= 0 {
		b.end(inst, reason)
		return
	}
	inst.ranOn = inst.State == provider.InstanceRunning
	b.change(inst, provider.InstanceShuttingDown, reason)
	b.later(inst, b.times.ShuttingDown, func() { b.end(inst, reason) })
}

// end terminates. The instance stays listed for the retention.
func (b *Book) end(inst *Instance, reason string) {
	b.change(inst, provider.InstanceTerminated, reason)
	b.later(inst, b.times.Retention, func() { b.forget(inst) })
}

// forget removes an instance; lagging reads show it until their lag has passed.
func (b *Book) forget(inst *Instance) {
	inst.gone = true
	inst.turn++
	b.remember(inst, nil)
	b.changed = append(b.changed, inst.ID)
	time.AfterFunc(historyKept, func() {
		b.write(func(*Book) { delete(b.instances, inst.ID) })
	})
}
