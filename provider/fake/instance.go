package fake

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
const historyKept = time.Minute

// instance is one instance. The Cloud's lock guards it, its disk excepted.
type instance struct {
	provider.Instance
	region, subnet, address string
	userData                string
	boot                    boot
	boots                   int
	disk                    *disk
	// hung: a stop that will not end by itself.
	hung bool
	// gone: not even the cloud remembers it; kept while lagging reads may still show it.
	gone bool
	// turn counts state changes, so that the timer of an older one does nothing.
	turn int
	// history holds what reads saw, oldest first. A nil view: absent.
	history []version
}

type version struct {
	at   time.Time
	view *provider.Instance
}

// boot is one life of the guest, decided when its start is accepted.
type boot struct {
	// Number counts from 1.
	Number  int
	ReadyAt time.Time
	// Silent and NoNetwork are faults; DeviceDelay counts from ReadyAt.
	Silent, NoNetwork bool
	DeviceDelay       time.Duration
}

// disk is what a machine keeps while it is off.
type disk struct {
	// mu guards the fields below. The machine writes them, the Cloud's snapshot reads them.
	mu sync.Mutex
	// registered: a kubelet of it has registered a Node once.
	registered bool
	// heartbeat is the stamp of the last report, in whole seconds as the API keeps it.
	heartbeat time.Time
	images    map[string]bool
}

// on reports whether the guest has power.
func (i *instance) on() bool {
	return i.State == provider.InstancePending || i.State == provider.InstanceRunning
}

// copyOf returns an Instance that shares nothing with i.
func copyOf(i *provider.Instance) *provider.Instance {
	view := *i
	view.Tags = maps.Clone(i.Tags)
	return &view
}

// change sets the state, makes it visible to reads and notes it for the observer. The caller holds the lock.
func (c *Cloud) change(inst *instance, state provider.InstanceState, reason string) {
	inst.State, inst.StateReason = state, reason
	inst.turn++
	c.remember(inst, copyOf(&inst.Instance))
	c.changed = append(c.changed, inst.ID)
}

// remember appends a version for lagging reads and drops those that no read can reach.
func (c *Cloud) remember(inst *instance, view *provider.Instance) {
	now := time.Now()
	old := 0
	for old+1 < len(inst.history) && now.Sub(inst.history[old+1].at) > historyKept {
		old++
	}
	inst.history = append(inst.history[old:], version{at: now, view: view})
}

// seen returns the instance as reads see it now; nil for absent. The caller holds the lock and does not keep the result.
func (c *Cloud) seen(inst *instance) *provider.Instance {
	horizon := time.Now().Add(-min(c.times.Lag, historyKept))
	for i := len(inst.history) - 1; i >= 0; i-- {
		if !inst.history[i].at.After(horizon) {
			return inst.history[i].view
		}
	}
	return nil
}

// later runs f under the lock after d, unless the instance has changed its state since.
func (c *Cloud) later(inst *instance, d time.Duration, f func()) {
	turn := inst.turn
	time.AfterFunc(d, func() {
		c.locked(func() {
			if inst.turn == turn && !inst.gone {
				f()
			}
		})
	})
}

// powerOn begins a boot: pending, running after a third of the boot time, the kubelet reports at its end.
func (c *Cloud) powerOn(inst *instance, op Op) {
	t := target{op: op, id: inst.ID, zone: inst.Zone, kind: inst.Type}
	inst.boots++
	inst.hung = false
	total := c.times.Boot
	if c.times.BootSpread > 0 {
		total += time.Duration(c.random.Int64N(int64(c.times.BootSpread)))
	}
	if inst.boots == 1 {
		total += c.times.RegisterDelay
	}
	if f := c.strike(t, FaultBootDelay); f != nil {
		total += f.Delay
	}
	inst.boot = boot{
		Number:      inst.boots,
		ReadyAt:     time.Now().Add(total),
		Silent:      c.strike(t, FaultKubeletSilent) != nil,
		NoNetwork:   c.strike(t, FaultNoNetwork) != nil,
		DeviceDelay: c.times.DeviceDelay,
	}
	if f := c.strike(t, FaultDevicesLate); f != nil {
		inst.boot.DeviceDelay = f.Delay
	}
	fallsBack := c.strike(t, FaultStartFallsBack)
	c.change(inst, provider.InstancePending, reasonUserStart)
	c.later(inst, min(total/3, c.times.Boot/3), func() {
		if fallsBack != nil {
			c.fallBack(inst, op, fallsBack.Reason)
			return
		}
		c.change(inst, provider.InstanceRunning, "")
	})
}

// fallBack ends a boot that the cloud gave up: a start goes back to stopped, a launch ends terminated, as in EC2.
func (c *Cloud) fallBack(inst *instance, op Op, reason string) {
	if reason == "" {
		reason = reasonFellBack
	}
	if op == OpLaunch {
		c.end(inst, reason)
		return
	}
	c.change(inst, provider.InstanceStopped, reason)
}

// powerOff begins a stop. The guest is silent from here on.
func (c *Cloud) powerOff(inst *instance, op Op, reason string) {
	t := target{op: op, id: inst.ID, zone: inst.Zone, kind: inst.Type}
	inst.hung = c.strike(t, FaultStopHangs) != nil
	c.change(inst, provider.InstanceStopping, reason)
	if !inst.hung {
		c.stopAfter(inst, c.times.Stop)
	}
}

// stopAfter completes a stop after d. Before the cloud says stopped, a report that was in flight when the power went has
// landed: heartbeats that are recorded at "stopped" would otherwise be surpassed by one from before.
func (c *Cloud) stopAfter(inst *instance, d time.Duration) {
	turn, id := inst.turn, inst.ID
	told := c.observer
	time.AfterFunc(d, func() {
		if told != nil {
			told.quiet(id)
		}
		c.locked(func() {
			if inst.turn == turn && !inst.gone {
				c.change(inst, provider.InstanceStopped, inst.StateReason)
			}
		})
	})
}

// end terminates. The instance stays listed for the retention.
func (c *Cloud) end(inst *instance, reason string) {
	c.change(inst, provider.InstanceTerminated, reason)
	c.later(inst, c.times.Retention, func() { c.forget(inst) })
}

// forget removes an instance; lagging reads show it until their lag has passed.
func (c *Cloud) forget(inst *instance) {
	inst.gone = true
	inst.turn++
	c.remember(inst, nil)
	c.changed = append(c.changed, inst.ID)
	time.AfterFunc(historyKept, func() {
		c.locked(func() { delete(c.instances, inst.ID) })
	})
}

// shutDown is the guest powering itself off: what `poweroff` in user data does.
func (c *Cloud) shutDown(id v1alpha1.InstanceID, bootNumber int) {
	c.locked(func() {
		inst, err := c.find(id)
		if err != nil || !inst.on() || inst.boot.Number != bootNumber {
			return
		}
		c.powerOff(inst, OpStop, reasonSelfStop)
	})
}

// guest is what the machine inside an instance is made of, and whether it has power.
type guest struct {
	id                                            v1alpha1.InstanceID
	name, providerID, kind, zone, region, address string
	userData                                      string
	disk                                          *disk
	boot                                          boot
	// on: has power. up: the cloud says running, which comes before any report of the kubelet.
	on, up bool
	// ended: terminated or gone.
	ended bool
}

// guest returns the machine's view of an instance; false for one that never was or is forgotten.
func (c *Cloud) guest(id v1alpha1.InstanceID) (guest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inst := c.instances[id]
	if inst == nil {
		return guest{}, false
	}
	return guest{
		id: id, name: inst.PrivateDNSName, providerID: inst.ProviderID, kind: inst.Type, zone: inst.Zone,
		region: inst.region, address: inst.address, userData: inst.userData, disk: inst.disk, boot: inst.boot,
		on:    inst.on() && !inst.gone,
		up:    inst.State == provider.InstanceRunning && !inst.gone,
		ended: inst.gone || inst.State == provider.InstanceTerminated,
	}, true
}

// guestIDs returns the instances that there are, sorted.
func (c *Cloud) guestIDs() []v1alpha1.InstanceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sortedIDs()
}

// observe makes o the one that is told about power; nil for nobody.
func (c *Cloud) observe(o observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observer = o
}
