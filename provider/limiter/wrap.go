package limiter

import (
	"context"

	"github.com/stratos-sh/stratos/provider"
)

// Cloud is a provider that launches from node classes of kind C, of which S is the status.
type Cloud[C, S any] interface {
	provider.CloudProvider
	LaunchInstance(ctx context.Context, class *C, req provider.LaunchRequest) (*provider.Instance, error)
	ResolveNodeClass(ctx context.Context, class *C) (S, error)
}

// Wrap returns a Cloud whose calls all go through c, each as one call. It is for providers that do
// not batch. The result is a provider.TypeChanger where the cloud is one.
func Wrap[C, S any](cloud Cloud[C, S], c *Calls) Cloud[C, S] {
	w := &wrapped[C, S]{cloud: cloud, calls: c}
	if changer, can := cloud.(provider.TypeChanger); can {
		return &typeChanger[C, S]{wrapped: w, changer: changer}
	}
	return w
}

// typeChanger is a wrapped cloud that can change types.
type typeChanger[C, S any] struct {
	*wrapped[C, S]
	changer provider.TypeChanger
}

// ChangeInstanceType implements provider.TypeChanger.
func (w *typeChanger[C, S]) ChangeInstanceType(ctx context.Context, instanceID, instanceType string) error {
	return w.calls.Do(ctx, ModifyInstanceAttribute, func() error {
		return w.changer.ChangeInstanceType(ctx, instanceID, instanceType)
	})
}

// SharesQuota implements provider.TypeChanger.
func (w *typeChanger[C, S]) SharesQuota(one, other string) bool {
	return w.changer.SharesQuota(one, other)
}

type wrapped[C, S any] struct {
	cloud Cloud[C, S]
	calls *Calls
}

func (w *wrapped[C, S]) LaunchInstance(
	ctx context.Context, class *C, req provider.LaunchRequest,
) (*provider.Instance, error) {
	return answer(ctx, w.calls, RunInstances, func() (*provider.Instance, error) {
		return w.cloud.LaunchInstance(ctx, class, req)
	})
}

// ResolveNodeClass has no limit: it is one look every few minutes.
func (w *wrapped[C, S]) ResolveNodeClass(ctx context.Context, class *C) (S, error) {
	return answer(ctx, w.calls, ResolveNodeClass, func() (S, error) { return w.cloud.ResolveNodeClass(ctx, class) })
}

func (w *wrapped[C, S]) StartInstance(ctx context.Context, instanceID string) error {
	return w.calls.Do(ctx, StartInstances, func() error { return w.cloud.StartInstance(ctx, instanceID) })
}

func (w *wrapped[C, S]) StopInstance(ctx context.Context, instanceID string, force bool) error {
	return w.calls.Do(ctx, StopInstances, func() error { return w.cloud.StopInstance(ctx, instanceID, force) })
}

func (w *wrapped[C, S]) TerminateInstance(ctx context.Context, instanceID string) error {
	return w.calls.Do(ctx, TerminateInstances, func() error { return w.cloud.TerminateInstance(ctx, instanceID) })
}

func (w *wrapped[C, S]) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	state, err := answer(ctx, w.calls, DescribeInstances, func() (provider.InstanceState,
		error) {
		return w.cloud.GetInstanceState(ctx, instanceID)
	})
	if err != nil {
		return provider.InstanceUnknown, err
	}
	return state, nil
}

func (w *wrapped[C, S]) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	return answer(ctx, w.calls, DescribeInstances, func() (*provider.Instance,
		error) {
		return w.cloud.GetInstance(ctx, instanceID)
	})
}

func (w *wrapped[C, S]) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	return answer(ctx, w.calls, DescribeInstances, func() ([]*provider.Instance,
		error) {
		return w.cloud.ListInstances(ctx, tags)
	})
}

func (w *wrapped[C, S]) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
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
