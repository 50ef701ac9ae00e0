package scaler

import (
	"context"
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Launcher launches instances of the node classes of one cloud.
type Launcher interface {
	// Launch launches an instance of the named class. Errors: the API server's (the class does not exist), and the
	// provider's InvalidConfig, InsufficientCapacity and RateLimit.
	Launch(ctx context.Context, ref v1alpha1.NodeClassRef, req provider.LaunchRequest) (*provider.Instance, error)
}

// AWSLauncher launches from AWSNodeClass objects.
type AWSLauncher struct {
	Reader client.Reader
	Cloud  interface {
		LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance, error)
	}
}

// Launch implements Launcher.
func (l *AWSLauncher) Launch(ctx context.Context, ref v1alpha1.NodeClassRef, req provider.LaunchRequest) (*provider.Instance, error) {
	if ref.Kind != "AWSNodeClass" {
		return nil, &provider.InvalidConfigError{
			Field: "spec.template.nodeClassRef.kind", Reason: fmt.Sprintf("%q is not a class of this cloud, AWSNodeClass is", ref.Kind),
		}
	}
	class := &v1alpha1.AWSNodeClass{}
	if err := l.Reader.Get(ctx, client.ObjectKey{Name: ref.Name}, class); err != nil {
		return nil, err
	}
	// Of this very object, not of one that is read before or after: the tags say what the instance was launched from.
	req.Tags = maps.Clone(req.Tags)
	maps.Copy(req.Tags, origin{class: class.Spec.Hash(), ami: class.Status.AMI}.written())
	return l.Cloud.LaunchInstance(ctx, class, req)
}
