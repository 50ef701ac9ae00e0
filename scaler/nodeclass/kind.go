package nodeclass

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Reading is the webhook's right with every cloud.
//
// +kubebuilder:rbac:roleName=kind,groups=stratos.sh,resources=kindnodeclasses,verbs=patch
// +kubebuilder:rbac:roleName=kind,groups=stratos.sh,resources=kindnodeclasses/status,verbs=patch

// KindCloud is a cloud that launches from KindNodeClass: the Docker daemon of a kind cluster.
type KindCloud interface {
	LaunchInstance(ctx context.Context, class *v1alpha1.KindNodeClass, req provider.LaunchRequest) (*provider.Instance,
		error)
	// ResolveNodeClass returns what the class's spec stands for; the observed generation and
	// conditions are the caller's.
	ResolveNodeClass(ctx context.Context, class *v1alpha1.KindNodeClass) (v1alpha1.KindNodeClassStatus, error)
}

// KindNodeClasses is the kind KindNodeClass, served by the cloud.
func KindNodeClasses(cloud KindCloud) Kind {
	return KindOf(v1alpha1.KindKindNodeClass, func() *v1alpha1.KindNodeClass { return &v1alpha1.KindNodeClass{} },
		&v1alpha1.KindNodeClassList{},
		cloud.LaunchInstance,
		func(ctx context.Context, class *v1alpha1.KindNodeClass) error {
			found, err := cloud.ResolveNodeClass(ctx, class)
			if err != nil {
				return err
			}
			found.ObservedGeneration, found.Conditions = class.Status.ObservedGeneration, class.Status.Conditions
			class.Status = found
			return nil
		})
}
