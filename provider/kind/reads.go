package kind

import (
	"context"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// GetInstanceState implements provider.CloudProvider.
func (p *Provider) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	n, err := p.find(ctx, instanceID)
	switch {
	case err == nil:
		return p.state(n), nil
	case provider.IsNotFound(err):
		if gone, ok := p.terminatedByID(v1alpha1.InstanceID(instanceID)); ok {
			return gone.State, nil
		}
	}
	return provider.InstanceUnknown, err
}

// GetInstance implements provider.CloudProvider.
func (p *Provider) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	n, err := p.find(ctx, instanceID)
	if provider.IsNotFound(err) {
		if gone, ok := p.terminatedByID(v1alpha1.InstanceID(instanceID)); ok {
			return gone, nil
		}
	}
	if err != nil {
		return nil, err
	}
	changed, err := p.changedTags(ctx)
	if err != nil {
		return nil, err
	}
	return p.instance(n, changed[n.ID].tags), nil
}

// ListInstances implements provider.CloudProvider. Docker matches no tags: those that were changed
// are not labels. It is two calls, whatever the number of nodes.
func (p *Provider) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	found, err := p.nodes(ctx)
	if err != nil {
		return nil, err
	}
	changed, err := p.changedTags(ctx)
	if err != nil {
		return nil, err
	}
	var out []*provider.Instance
	listed := map[v1alpha1.InstanceID]bool{}
	for _, n := range found {
		listed[n.id] = true
		if instance := p.instance(n, changed[n.ID].tags); carries(instance.Tags, tags) {
			out = append(out, instance)
		}
	}
	for _, gone := range p.graves() {
		if !listed[gone.ID] && carries(gone.Tags, tags) {
			out = append(out, gone)
		}
	}
	slices.SortFunc(out, func(a, b *provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

func (p *Provider) graves() []*provider.Instance {
	p.mu.Lock()
	ids := make([]v1alpha1.InstanceID, 0, len(p.terminated))
	for id := range p.terminated {
		ids = append(ids, id)
	}
	p.mu.Unlock()
	var out []*provider.Instance
	for _, id := range ids {
		if gone, ok := p.terminatedByID(id); ok {
			out = append(out, gone)
		}
	}
	return out
}
