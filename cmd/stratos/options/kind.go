package options

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/kind"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/scaler"
)

// kindCloud is the Docker daemon that runs the kind cluster, as DOCKER_HOST names it.
func kindCloud(calls *limiter.Calls) (*Cloud, error) {
	docker, err := kind.FromEnvironment()
	if err != nil {
		return nil, err
	}
	cloud := &kindCalls{CloudProvider: limiter.WrapProvider(docker, calls), docker: docker, calls: calls}
	return &Cloud{Provider: cloud, Classes: []scaler.ClassKind{scaler.KindNodeClasses(cloud)}}, nil
}

// kindCalls has the two calls counted that know the class.
type kindCalls struct {
	provider.CloudProvider
	docker *kind.Provider
	calls  *limiter.Calls
}

// LaunchInstance implements scaler.KindCloud.
func (k *kindCalls) LaunchInstance(ctx context.Context, class *v1alpha1.KindNodeClass, req provider.LaunchRequest) (launched *provider.Instance, err error) {
	err = k.calls.Do(ctx, limiter.RunInstances, func() (err error) {
		launched, err = k.docker.LaunchInstance(ctx, class, req)
		return err
	})
	return launched, err
}

// ResolveNodeClass implements scaler.KindCloud.
func (k *kindCalls) ResolveNodeClass(ctx context.Context, class *v1alpha1.KindNodeClass) (found v1alpha1.KindNodeClassStatus, err error) {
	err = k.calls.Do(ctx, limiter.ResolveNodeClass, func() (err error) {
		found, err = k.docker.ResolveNodeClass(ctx, class)
		return err
	})
	return found, err
}
