package model

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// subClient writes subresources.
type subClient struct {
	client.SubResourceClient
	c  *apiClient
	of string
}

// Patch implements client.SubResourceWriter.
func (s *subClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(object)
	if err != nil || string(data) == "{}" {
		return err
	}
	return s.c.p.write(fmt.Sprintf("patch %s/%s %s", kindOf(object), s.of, object.GetName()), func() error {
		return s.c.patch(object, patch.Type(), data, true)
	})
}

// Update implements client.SubResourceWriter, for the status of pools.
func (s *subClient) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	pool, ok := object.(*v1alpha1.NodePool)
	if !ok {
		return fmt.Errorf("the world updates no status of %T", object)
	}
	return s.c.p.write("status of pool "+pool.Name, func() error {
		found := s.c.p.w.api.pool(pool.Name)
		switch {
		case found == nil:
			return notFound(kindPool, pool.Name)
		case found.ResourceVersion != pool.ResourceVersion:
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodepools"}, pool.Name, fmt.Errorf("the object has been modified"))
		}
		is := found.DeepCopy()
		pool.Status.DeepCopyInto(&is.Status)
		s.c.p.w.api.put(kindPool, is)
		copyInto(is, pool)
		return nil
	})
}

// Create implements client.SubResourceWriter, for evictions.
func (s *subClient) Create(_ context.Context, object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return s.c.p.write("evict "+object.GetName(), func() error {
		at := client.ObjectKeyFromObject(object)
		pod := s.c.p.w.api.pod(at)
		switch {
		case pod == nil:
			return notFound(kindPod, at.Name)
		case pod.Annotations[annotationGuarded] != "":
			return apierrors.NewTooManyRequests("a disruption budget does not allow it", 1)
		}
		s.c.p.w.api.remove(kindPod, at)
		return nil
	})
}
