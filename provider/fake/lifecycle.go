package fake

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// StartInstance implements provider.CloudProvider.
func (c *Cloud) StartInstance(ctx context.Context, instanceID string) error {
	id := v1alpha1.InstanceID(instanceID)
	return c.call(ctx, Call{Op: OpStart, Instance: id}, func() error {
		inst, err := c.find(id)
		if err != nil {
			return err
		}
		return c.start(inst)
	})
}

func (c *Cloud) start(inst *instance) error {
	switch inst.State {
	case provider.InstancePending, provider.InstanceRunning:
		return nil
	case provider.InstanceStopped:
	default:
		return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: verb(OpStart)}
	}
	if !c.hasRoom(inst.Zone, inst.Type) {
		return noCapacity(inst.Zone, inst.Type)
	}
	c.powerOn(inst, OpStart)
	return nil
}

// StopInstance implements provider.CloudProvider.
func (c *Cloud) StopInstance(ctx context.Context, instanceID string, force bool) error {
	id := v1alpha1.InstanceID(instanceID)
	return c.call(ctx, Call{Op: OpStop, Instance: id, Force: force}, func() error {
		inst, err := c.find(id)
		if err != nil {
			return err
		}
		return c.stop(inst, force)
	})
}

func (c *Cloud) stop(inst *instance, force bool) error {
	switch inst.State {
	case provider.InstanceTerminated:
		return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: verb(OpStop)}
	case provider.InstanceStopped:
		return nil
	case provider.InstanceStopping:
		if inst.hung && force {
			inst.hung = false
			c.stopAfter(inst, c.times.Stop)
		}
		return nil
	}
	c.powerOff(inst, OpStop, reasonUserStop)
	if inst.hung && force {
		// What hangs is the guest; a stop by force does not wait for it.
		inst.hung = false
		c.stopAfter(inst, c.times.Stop)
	}
	return nil
}

// TerminateInstance implements provider.CloudProvider.
func (c *Cloud) TerminateInstance(ctx context.Context, instanceID string) error {
	id := v1alpha1.InstanceID(instanceID)
	return c.call(ctx, Call{Op: OpTerminate, Instance: id}, func() error {
		inst, err := c.find(id)
		if err != nil {
			return err
		}
		if inst.State != provider.InstanceTerminated {
			c.end(inst, reasonUserStop)
		}
		return nil
	})
}

// UpdateInstanceTags implements provider.CloudProvider.
func (c *Cloud) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	id := v1alpha1.InstanceID(instanceID)
	return c.call(ctx, Call{Op: OpUpdateTags, Instance: id}, func() error {
		inst, err := c.find(id)
		if err != nil {
			return err
		}
		inst.Tags = maps.Clone(inst.Tags)
		if inst.Tags == nil {
			inst.Tags = map[string]string{}
		}
		maps.Copy(inst.Tags, tags)
		c.remember(inst, copyOf(&inst.Instance))
		return nil
	})
}

// hasRoom reports whether one more instance of the type may have power in the zone.
func (c *Cloud) hasRoom(zone, kind string) bool {
	used := -1
	for _, limit := range c.capacity {
		if (limit.Zone != "*" && limit.Zone != zone) || (limit.Type != "*" && limit.Type != kind) {
			continue
		}
		if used < 0 {
			used = c.powered(zone, kind)
		}
		if used >= limit.Count {
			return false
		}
	}
	return true
}

func (c *Cloud) powered(zone, kind string) int {
	n := 0
	for _, inst := range c.instances {
		if inst.Zone == zone && inst.Type == kind && !inst.gone && (inst.on() || inst.State == provider.InstanceStopping) {
			n++
		}
	}
	return n
}

func noCapacity(zone, kind string) error {
	return &provider.InsufficientCapacityError{Type: kind, Zone: zone, Err: errors.New("InsufficientInstanceCapacity")}
}

// Behind implements Control.
func (c *Cloud) Behind(_ context.Context, instanceID string, action Action) error {
	var err error
	c.locked(func() {
		var inst *instance
		if inst, err = c.find(v1alpha1.InstanceID(instanceID)); err == nil {
			err = c.act(inst, action)
		}
	})
	return err
}

func (c *Cloud) act(inst *instance, action Action) error {
	switch action {
	case ActVanish:
		inst.State = provider.InstanceTerminated
		inst.gone = true
		c.forget(inst)
		return nil
	case ActStart:
		return c.start(inst)
	case ActStop:
		return c.stop(inst, false)
	case ActTerminate:
		if inst.State != provider.InstanceTerminated {
			c.end(inst, reasonUserStop)
		}
		return nil
	case ActReboot:
		if inst.State != provider.InstanceRunning {
			return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: string(ActReboot)}
		}
		inst.boots++
		inst.boot = boot{Number: inst.boots, ReadyAt: time.Now().Add(c.times.Boot), DeviceDelay: c.times.DeviceDelay}
		c.changed = append(c.changed, inst.ID)
		return nil
	case ActAge:
		inst.LaunchTime = inst.LaunchTime.Add(-24 * time.Hour)
		c.remember(inst, copyOf(&inst.Instance))
		return nil
	}
	if action == ActCollectImages {
		inst.disk.mu.Lock()
		defer inst.disk.mu.Unlock()
		clear(inst.disk.images)
		return nil
	}
	return &provider.InvalidConfigError{Field: "action", Reason: "unknown action " + string(action)}
}
