package fake

import (
	"context"
	"fmt"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// ChangeInstanceType implements provider.TypeChanger.
func (c *Cloud) ChangeInstanceType(ctx context.Context, instanceID, instanceType string) error {
	return c.onInstance(ctx, Call{Op: OpChangeType, Instance: v1alpha1.InstanceID(instanceID)},
		func(b *simcloud.Book, inst *simcloud.Instance) error {
			if inst.Type == instanceType {
				return nil
			}
			if err := simcloud.Changeable(inst); err != nil {
				return err
			}
			if reason := c.typeRefusal(inst.Type, instanceType); reason != "" {
				return &provider.InvalidConfigError{Field: "instance " + instanceID, Reason: reason}
			}
			return b.ChangeType(inst, instanceType)
		})
}

// typeRefusal is why an instance of a type cannot become another one; "" where it can.
func (c *Cloud) typeRefusal(from, to string) string {
	old, _ := c.InstanceType(from)
	size, known := c.InstanceType(to)
	switch {
	case !known:
		return fmt.Sprintf("unknown instance type %q", to)
	case size.Arch != old.Arch:
		return fmt.Sprintf("Modifying the instance type from %s to %s is not allowed.", from, to)
	}
	return ""
}

// SharesQuota implements provider.TypeChanger: this cloud has no quotas.
func (c *Cloud) SharesQuota(string, string) bool { return false }
