package simcloud

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// LaunchSpec is what an instance is made of.
type LaunchSpec struct {
	Type, Region, Zone, Subnet string
	UserData                   string
	Tags                       map[string]string
	// EndsBySelfStop: a guest that powers itself off terminates its instance.
	EndsBySelfStop bool
}

// LaunchRefusal is why no instance of the type can be launched into the subnet of the zone now; nil
// where one can. addresses bounds the instances of the subnet, negative for no bound.
func (b *Book) LaunchRefusal(kind, zone, subnet string, addresses int) error {
	t := Target{Op: OpLaunch, Zone: zone, Type: kind}
	if f := b.Strike(t, FaultNoAddresses, FaultInsufficientCapacity); f != nil {
		return f.failure(t, "")
	}
	if err := b.AddressRefusal(kind, zone, subnet, addresses); err != nil {
		return err
	}
	if !b.HasRoom(zone, kind, 1) {
		return NoCapacity(zone, kind)
	}
	return nil
}

// AddressRefusal is the error of a subnet without free addresses; nil where it has one.
func (b *Book) AddressRefusal(kind, zone, subnet string, addresses int) error {
	if addresses >= 0 && b.InSubnet(subnet) >= addresses {
		return &provider.InsufficientCapacityError{Type: kind, Zone: zone, Err: errors.New(NoAddresses)}
	}
	return nil
}

// Launch makes an instance and begins its first boot. What could refuse it is the caller's to ask
// before.
func (b *Book) Launch(spec LaunchSpec) *Instance {
	inst := b.newInstance(spec)
	maps.Copy(inst.Tags, spec.Tags)
	b.instances[inst.ID] = inst
	b.powerOn(inst, OpLaunch)
	return inst
}

// newInstance draws an id and an address that no instance of this cloud had before.
func (b *Book) newInstance(spec LaunchSpec) *Instance {
	b.nextHost++
	host := b.nextHost % (1 << 24)
	x, y, z := host>>16, host>>8&0xff, host&0xff
	id := v1alpha1.InstanceID(fmt.Sprintf("i-%09x%08x", b.random.Uint64N(1<<36), b.nextHost))
	domain := spec.Region + ".compute.internal"
	if spec.Region == DefaultRegion {
		domain = "ec2.internal"
	}
	return &Instance{
		Instance: provider.Instance{
			ID:             id,
			ProviderID:     fmt.Sprintf("%s/%s/%s", b.prefix, spec.Zone, id),
			Type:           spec.Type,
			Zone:           spec.Zone,
			Region:         spec.Region,
			PrivateDNSName: fmt.Sprintf("ip-10-%d-%d-%d.%s", x, y, z, domain),
			// The monotonic reading does not survive the wire, and both sides must be equal.
			LaunchTime: time.Now().UTC().Round(0),
			Tags:       map[string]string{},
		},
		Subnet:         spec.Subnet,
		Address:        fmt.Sprintf("10.%d.%d.%d", x, y, z),
		userData:       spec.UserData,
		endsBySelfStop: spec.EndsBySelfStop,
		disk:           &Disk{Images: map[string]bool{}},
	}
}
