package simcloud

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Boot is one life of the guest, decided when its start is accepted.
type Boot struct {
	// Number counts from 1.
	Number  int
	ReadyAt time.Time
	// Silent and NoNetwork are faults; DeviceDelay counts from ReadyAt.
	Silent, NoNetwork bool
	DeviceDelay       time.Duration
}

// Guest is what the machine inside an instance is made of, and whether it has power.
type Guest struct {
	ID                                            v1alpha1.InstanceID
	Name, ProviderID, Type, Zone, Region, Address string
	UserData                                      string
	Disk                                          *Disk
	Boot                                          Boot
	// On: has power. Up: the cloud says running, which comes before any report of the kubelet, or the
	// instance ran and shuts down.
	On, Up bool
	// Ending: it was asked to shut down and still has power. A stop by force takes the power at once.
	Ending bool
	// Ended: terminated or gone.
	Ended bool
}

// Guest returns the machine's view of an instance; false for one that never was or is forgotten.
func (c *Cloud) Guest(id v1alpha1.InstanceID) (Guest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inst := c.book.instances[id]
	if inst == nil {
		return Guest{}, false
	}
	return Guest{
		ID: id, Name: inst.PrivateDNSName, ProviderID: inst.ProviderID, Type: inst.Type, Zone: inst.Zone,
		Region: inst.Region, Address: inst.Address, UserData: inst.userData, Disk: inst.disk, Boot: inst.boot,
		On:     (inst.on() || inst.up()) && !inst.gone,
		Up:     inst.up() && !inst.gone,
		Ending: inst.State == provider.InstanceStopping && inst.inOrder && !inst.gone,
		Ended:  inst.gone || inst.State == provider.InstanceTerminated,
	}, true
}

// GuestIDs returns the instances that there are, sorted.
func (c *Cloud) GuestIDs() []v1alpha1.InstanceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.IDs()
}

// Observe makes o the one that is told about power; nil for none.
func (c *Cloud) Observe(o Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.observer = o
}

// ShutDown is the guest powering itself off: what `poweroff` in user data does. In a later boot
// than that it does nothing.
func (c *Cloud) ShutDown(id v1alpha1.InstanceID, bootNumber int) {
	c.Write(func(b *Book) {
		inst, err := b.Find(id)
		if err != nil || !inst.on() || inst.boot.Number != bootNumber {
			return
		}
		if inst.endsBySelfStop {
			b.end(inst, reasonSelfStop)
			return
		}
		inst.inOrder = true
		b.powerOff(inst, OpStop, reasonSelfStop)
	})
}

// Truth returns the state of the instance with that provider id, without lag; false for none.
func (c *Cloud) Truth(providerID string) (provider.InstanceState, bool) {
	id := v1alpha1.InstanceID(providerID[strings.LastIndex(providerID, "/")+1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	inst, err := c.book.Find(id)
	if err != nil || inst.ProviderID != providerID {
		return provider.InstanceUnknown, false
	}
	return inst.State, true
}

// View is the truth about one instance.
type View struct {
	provider.Instance
	// Boots counts the boots so far; Registered says whether a kubelet of it ever registered its Node.
	Boots      int
	Registered bool
	// Images are those on its disk, sorted.
	Images []string
}

func (i *Instance) view() View {
	i.disk.Lock()
	defer i.disk.Unlock()
	return View{
		Instance:   *CopyOf(&i.Instance),
		Boots:      i.boots,
		Registered: i.disk.Registered,
		Images:     slices.Sorted(maps.Keys(i.disk.Images)),
	}
}
