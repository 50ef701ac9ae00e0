package fake

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// StartInstance implements provider.CloudProvider.
func (c *Cloud) StartInstance(ctx context.Context, instanceID string) error {
	return c.onInstance(ctx, Call{Op: OpStart, Instance: v1alpha1.InstanceID(instanceID)}, (*simcloud.Book).Start)
}

// StopInstance implements provider.CloudProvider.
func (c *Cloud) StopInstance(ctx context.Context, instanceID string, force bool) error {
	return c.onInstance(ctx, Call{Op: OpStop, Instance: v1alpha1.InstanceID(instanceID), Force: force},
		func(b *simcloud.Book, inst *simcloud.Instance) error { return b.Stop(inst, force) })
}

// TerminateInstance implements provider.CloudProvider.
func (c *Cloud) TerminateInstance(ctx context.Context, instanceID string) error {
	return c.onInstance(ctx, Call{Op: OpTerminate, Instance: v1alpha1.InstanceID(instanceID)},
		func(b *simcloud.Book, inst *simcloud.Instance) error {
			b.Terminate(inst)
			return nil
		})
}

// UpdateInstanceTags implements provider.CloudProvider.
func (c *Cloud) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	return c.onInstance(ctx, Call{Op: OpUpdateTags, Instance: v1alpha1.InstanceID(instanceID)},
		func(b *simcloud.Book, inst *simcloud.Instance) error {
			b.SetTags(inst, tags)
			return nil
		})
}

// onInstance is a call that changes the instance which it names.
func (c *Cloud) onInstance(ctx context.Context, logged Call, change func(*simcloud.Book,
	*simcloud.Instance) error) error {
	return c.call(ctx, logged, func(b *simcloud.Book) error {
		inst, err := b.Find(logged.Instance)
		if err != nil {
			return err
		}
		return change(b, inst)
	})
}
