package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

var (
	_ admission.Validator[*v1alpha1.NodePool]      = poolValidator{}
	_ admission.Validator[*v1alpha1.AWSNodeClass]  = classValidator{}
	_ admission.Validator[*v1alpha1.KindNodeClass] = kindClassValidator{}
)

type poolValidator struct{ lookup lookup }

// ValidateCreate implements admission.Validator.
func (v poolValidator) ValidateCreate(ctx context.Context, pool *v1alpha1.NodePool) (admission.Warnings, error) {
	return v.validate(ctx, nil, pool)
}

// ValidateUpdate implements admission.Validator.
func (v poolValidator) ValidateUpdate(ctx context.Context, old, pool *v1alpha1.NodePool) (admission.Warnings, error) {
	return v.validate(ctx, old, pool)
}

// ValidateDelete implements admission.Validator; a pool may always be deleted.
func (v poolValidator) ValidateDelete(context.Context, *v1alpha1.NodePool) (admission.Warnings, error) {
	return nil, nil
}

func (v poolValidator) validate(ctx context.Context, old, pool *v1alpha1.NodePool) (admission.Warnings, error) {
	if pool.DeletionTimestamp != nil {
		return nil, nil // its spec decides nothing any more, and its finalizer must be able to go
	}
	around := NodePoolContext{Old: old}
	around.Class, around.ClassUnread = v.lookup.class(ctx, pool.Spec.Template.NodeClassRef)
	errs, warnings := ValidateNodePool(pool, around)
	return warnings, invalid("NodePool", pool, errs)
}

type classValidator struct{ lookup lookup }

// ValidateCreate implements admission.Validator.
func (v classValidator) ValidateCreate(ctx context.Context, class *v1alpha1.AWSNodeClass) (admission.Warnings, error) {
	return v.validate(ctx, nil, class)
}

// ValidateUpdate implements admission.Validator.
func (v classValidator) ValidateUpdate(ctx context.Context, old, class *v1alpha1.AWSNodeClass) (admission.Warnings,
	error) {
	return v.validate(ctx, old, class)
}

// ValidateDelete implements admission.Validator.
func (v classValidator) ValidateDelete(ctx context.Context, class *v1alpha1.AWSNodeClass) (admission.Warnings, error) {
	return nil, v.lookup.deletable(ctx, v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: class.Name},
		"awsnodeclasses")
}

// deletable says whether a class may be deleted. The pools are read from the API server: a pool
// that the watch has not brought yet would lose its class.
func (l lookup) deletable(ctx context.Context, ref v1alpha1.NodeClassRef, resource string) error {
	pools, err := poolsOf(ctx, l.live, ref)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("listing the NodePools that may use it: %w", err))
	}
	if err := ValidateNodeClassDeletion(pools); err != nil {
		return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion().Group, Resource: resource},
			ref.Name, err)
	}
	return nil
}

func (v classValidator) validate(ctx context.Context, old, class *v1alpha1.AWSNodeClass) (admission.Warnings, error) {
	if class.DeletionTimestamp != nil {
		return nil, nil
	}
	around := AWSNodeClassContext{Old: old}
	around.Pools, around.PoolsUnread = poolsOf(ctx, v.lookup.cached, v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass,
		Name: class.Name})
	errs, warnings := ValidateAWSNodeClass(class, around)
	return warnings, invalid("AWSNodeClass", class, errs)
}

type kindClassValidator struct{ lookup lookup }

// ValidateCreate implements admission.Validator.
func (v kindClassValidator) ValidateCreate(ctx context.Context, class *v1alpha1.KindNodeClass) (admission.Warnings,
	error) {
	return v.validate(ctx, nil, class)
}

// ValidateUpdate implements admission.Validator.
func (v kindClassValidator) ValidateUpdate(ctx context.Context, old, class *v1alpha1.KindNodeClass) (admission.Warnings,
	error) {
	return v.validate(ctx, old, class)
}

// ValidateDelete implements admission.Validator.
func (v kindClassValidator) ValidateDelete(ctx context.Context, class *v1alpha1.KindNodeClass) (admission.Warnings,
	error) {
	return nil, v.lookup.deletable(ctx, v1alpha1.NodeClassRef{Kind: v1alpha1.KindKindNodeClass, Name: class.Name},
		"kindnodeclasses")
}

func (v kindClassValidator) validate(ctx context.Context, old, class *v1alpha1.KindNodeClass) (admission.Warnings,
	error) {
	if class.DeletionTimestamp != nil {
		return nil, nil
	}
	around := KindNodeClassContext{Old: old}
	around.Pools, around.PoolsUnread = poolsOf(ctx, v.lookup.cached,
		v1alpha1.NodeClassRef{Kind: v1alpha1.KindKindNodeClass, Name: class.Name})
	errs, warnings := ValidateKindNodeClass(class, around)
	return warnings, invalid(v1alpha1.KindKindNodeClass, class, errs)
}

// invalid is the error that kubectl prints with one line per field.
func invalid(kind string, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName()
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.GroupVersion().Group, Kind: kind}, name, errs)
}
