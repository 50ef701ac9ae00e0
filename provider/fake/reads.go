package fake

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// GetInstanceState implements provider.CloudProvider.
func (c *Cloud) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	view, err := c.get(ctx, OpGetState, instanceID)
	if err != nil {
		return provider.InstanceUnknown, err
	}
	return view.State, nil
}

// GetInstance implements provider.CloudProvider.
func (c *Cloud) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	return c.get(ctx, OpGet, instanceID)
}

func (c *Cloud) get(ctx context.Context, op Op, instanceID string) (*provider.Instance, error) {
	id := v1alpha1.InstanceID(instanceID)
	var view *provider.Instance
	err := c.call(ctx, Call{Op: op, Instance: id}, func(b *simcloud.Book) error {
		// Reads look at what is visible, so an instance that vanished a moment ago may still be there.
		if seen, _ := b.Seen(id); seen != nil {
			view = simcloud.CopyOf(seen)
			return nil
		}
		return &provider.InstanceNotFoundError{ID: instanceID}
	})
	if err != nil {
		return nil, err
	}
	return view, nil
}

// ListInstances implements provider.CloudProvider.
func (c *Cloud) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	var views []*provider.Instance
	err := c.call(ctx, Call{Op: OpList}, func(b *simcloud.Book) error {
		for _, id := range b.IDs() {
			if seen, _ := b.Seen(id); seen != nil && carries(seen.Tags, tags) {
				views = append(views, simcloud.CopyOf(seen))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return views, nil
}

// carries reports whether have holds every tag of want.
func carries(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}
