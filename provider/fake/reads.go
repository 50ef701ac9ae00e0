package fake

import (
	"context"
	"maps"
	"slices"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
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
	err := c.call(ctx, Call{Op: op, Instance: id}, func() error {
		// Reads look at what is visible, so an instance that vanished a moment ago may still be there.
		if inst := c.instances[id]; inst != nil {
			if seen := c.seen(inst); seen != nil {
				view = copyOf(seen)
				return nil
			}
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
	err := c.call(ctx, Call{Op: OpList}, func() error {
		for _, id := range c.sortedIDs() {
			if seen := c.seen(c.instances[id]); seen != nil && carries(seen.Tags, tags) {
				views = append(views, copyOf(seen))
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

// Snapshot implements Control.
func (c *Cloud) Snapshot(context.Context) ([]View, error) {
	var views []View
	c.locked(func() {
		for _, id := range c.sortedIDs() {
			if inst := c.instances[id]; !inst.gone {
				views = append(views, inst.view())
			}
		}
	})
	return views, nil
}

func (i *instance) view() View {
	i.disk.mu.Lock()
	defer i.disk.mu.Unlock()
	return View{
		Instance:   *copyOf(&i.Instance),
		Boots:      i.boots,
		Registered: i.disk.registered,
		Images:     slices.Sorted(maps.Keys(i.disk.images)),
	}
}
