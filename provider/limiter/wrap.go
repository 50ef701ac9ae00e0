package limiter

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Cloud is a provider that launches from AWSNodeClass.
type Cloud interface {
	provider.CloudProvider
	LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance, error)
	ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error)
}

// Wrap returns a Cloud whose calls all go through c, each as one call. It is for providers that do not batch.
func Wrap(cloud Cloud, c *Calls) Cloud {
	return &wrapped{CloudProvider: WrapProvider(cloud, c), cloud: cloud, calls: c}
}

// WrapProvider is Wrap for a provider that launches from a class of its own: its launches go through Calls where they are made.
func WrapProvider(cloud provider.CloudProvider, c *Calls) provider.CloudProvider {
	return &wrappedProvider{cloud: cloud, calls: c}
}

type wrapped struct {
	provider.CloudProvider
	cloud Cloud
	calls *Calls
}

func (w *wrapped) LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance, error) {
	return answer(ctx, w.calls, RunInstances, func() (*provider.Instance, error) { return w.cloud.LaunchInstance(ctx, class, req) })
}

// ResolveNodeClass has no limit: it is one look every few minutes.
func (w *wrapped) ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error) {
	return answer(ctx, w.calls, ResolveNodeClass, func() (v1alpha1.AWSNodeClassStatus, error) { return w.cloud.ResolveNodeClass(ctx, class) })
}

type wrappedProvider struct {
	cloud provider.CloudProvider
	calls *Calls
}

func (w *wrappedProvider) StartInstance(ctx context.Context, instanceID string) error {
	return w.calls.Do(ctx, StartInstances, func() error { return w.cloud.StartInstance(ctx, instanceID) })
}

func (w *wrappedProvider) StopInstance(ctx context.Context, instanceID string, force bool) error {
	return w.calls.Do(ctx, StopInstances, func() error { return w.cloud.StopInstance(ctx, instanceID, force) })
}

func (w *wrappedProvider) TerminateInstance(ctx context.Context, instanceID string) error {
	return w.calls.Do(ctx, TerminateInstances, func() error { return w.cloud.TerminateInstance(ctx, instanceID) })
}

func (w *wrappedProvider) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	state, err := answer(ctx, w.calls, DescribeInstances, func() (provider.InstanceState, error) { return w.cloud.GetInstanceState(ctx, instanceID) })
	if err != nil {
		return provider.InstanceUnknown, err
	}
	return state, nil
}

func (w *wrappedProvider) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	return answer(ctx, w.calls, DescribeInstances, func() (*provider.Instance, error) { return w.cloud.GetInstance(ctx, instanceID) })
}

func (w *wrappedProvider) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	return answer(ctx, w.calls, DescribeInstances, func() ([]*provider.Instance, error) { return w.cloud.ListInstances(ctx, tags) })
}

func (w *wrappedProvider) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	return w.calls.Do(ctx, CreateTags, func() error { return w.cloud.UpdateInstanceTags(ctx, instanceID, tags) })
}

// answer is Do for a call that returns something.
func answer[T any](ctx context.Context, c *Calls, op Operation, call func() (T, error)) (T, error) {
	var out T
	err := c.Do(ctx, op, func() (err error) {
		out, err = call()
		return err
	})
	return out, err
}
