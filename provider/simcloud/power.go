package simcloud

import (
	"context"
	"maps"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Startable is why the instance cannot be started, without regard to room: nil for one that is
// stopped, or has power already. Errors: IncorrectState.
func Startable(inst *Instance) error {
	if inst.on() || inst.State == provider.InstanceStopped {
		return nil
	}
	return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: verb(OpStart)}
}

// Start begins a boot of a stopped instance; one that has power stays as it is. Errors:
// IncorrectState, InsufficientCapacity.
func (b *Book) Start(inst *Instance) error {
	if err := Startable(inst); err != nil || inst.on() {
		return err
	}
	if !inst.Reserved && !b.HasRoom(inst.Zone, inst.Type, 1) {
		return NoCapacity(inst.Zone, inst.Type)
	}
	b.powerOn(inst, OpStart)
	return nil
}

// Stoppable is why the instance cannot be stopped: it is pending, shuts down, or is terminated.
// Errors: IncorrectState.
func Stoppable(inst *Instance) error {
	switch inst.State {
	case provider.InstancePending, provider.InstanceShuttingDown, provider.InstanceTerminated:
		return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: verb(OpStop)}
	default:
		return nil
	}
}

// Stop begins a stop; a stop by force also ends one that hangs. Errors: IncorrectState.
func (b *Book) Stop(inst *Instance, force bool) error {
	if err := Stoppable(inst); err != nil {
		return err
	}
	switch inst.State {
	case provider.InstanceStopped:
		return nil
	case provider.InstanceStopping:
		if inst.hung && force {
			inst.hung = false
			b.stopAfter(inst, b.times.Stop)
		}
		return nil
	default:
	}
	inst.inOrder = !force
	b.powerOff(inst, OpStop, reasonUserStop)
	if inst.hung && force {
		// What hangs is the guest; a stop by force does not wait for it.
		inst.hung = false
		b.stopAfter(inst, b.times.Stop)
	}
	return nil
}

// Terminate ends the instance permanently; one that has ended stays as it is.
func (b *Book) Terminate(inst *Instance) {
	switch inst.State {
	case provider.InstanceShuttingDown, provider.InstanceTerminated:
	default:
		b.shutDown(inst, reasonUserStop)
	}
}

// SetTags sets the given tags and leaves the others.
func (b *Book) SetTags(inst *Instance, tags map[string]string) {
	inst.Tags = maps.Clone(inst.Tags)
	if inst.Tags == nil {
		inst.Tags = map[string]string{}
	}
	maps.Copy(inst.Tags, tags)
	b.remember(inst, CopyOf(&inst.Instance))
}

// Changeable is why the type of the instance cannot be changed: it is not stopped. Errors:
// IncorrectState.
func Changeable(inst *Instance) error {
	if inst.State == provider.InstanceStopped {
		return nil
	}
	return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: verb(OpChangeType)}
}

// ChangeType makes the instance the type, of which its next boot is. Errors: IncorrectState.
func (b *Book) ChangeType(inst *Instance, kind string) error {
	if err := Changeable(inst); err != nil || inst.Type == kind {
		return err
	}
	inst.Type = kind
	b.remember(inst, CopyOf(&inst.Instance))
	return nil
}

// Action is something that happens to an instance without Stratos.
type Action string

// The actions of Behind.
const (
	// ActVanish: the instance is gone at once, without a trace.
	ActVanish Action = "vanish"
	// ActStart, ActStop and ActTerminate are what a person does in the cloud's console.
	ActStart     Action = "start"
	ActStop      Action = "stop"
	ActTerminate Action = "terminate"
	// ActReboot: the guest restarts; the instance stays running.
	ActReboot Action = "reboot"
	// ActAge: the instance was launched a day earlier than it was. What depends on its age can be seen
	// without waiting for it.
	ActAge Action = "age"
	// ActCollectImages: the kubelet's garbage collection takes every image from the disk, those of
	// running pods too.
	ActCollectImages Action = "collect-images"
)

// Behind acts on an instance behind Stratos's back. Errors: NotFound, IncorrectState,
// InsufficientCapacity, InvalidConfig.
func (c *Cloud) Behind(_ context.Context, instanceID string, action Action) error {
	var err error
	c.Write(func(b *Book) {
		var inst *Instance
		if inst, err = b.Find(v1alpha1.InstanceID(instanceID)); err == nil {
			err = b.act(inst, action)
		}
	})
	return err
}

func (b *Book) act(inst *Instance, action Action) error {
	switch action {
	case ActVanish:
		inst.State = provider.InstanceTerminated
		inst.gone = true
		b.forget(inst)
		return nil
	case ActStart:
		return b.Start(inst)
	case ActStop:
		return b.Stop(inst, false)
	case ActTerminate:
		b.Terminate(inst)
		return nil
	case ActReboot:
		if inst.State != provider.InstanceRunning {
			return &provider.IncorrectStateError{ID: string(inst.ID), State: inst.State, Op: string(ActReboot)}
		}
		inst.boots++
		inst.boot = Boot{Number: inst.boots, ReadyAt: time.Now().Add(b.times.Boot), DeviceDelay: b.times.DeviceDelay}
		b.changed = append(b.changed, inst.ID)
		return nil
	case ActAge:
		inst.LaunchTime = inst.LaunchTime.Add(-24 * time.Hour)
		b.remember(inst, CopyOf(&inst.Instance))
		return nil
	case ActCollectImages:
		inst.disk.Lock()
		defer inst.disk.Unlock()
		clear(inst.disk.Images)
		return nil
	}
	return &provider.InvalidConfigError{Field: "action", Reason: "unknown action " + string(action)}
}
