package model

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (s *subClient) Patch(_ context.Context, object client.Object, patch client.Patch,
	options ...client.SubResourcePatchOption) error {
	data, err := patch.Data(object)
	if err != nil || string(data) == "{}" {
		return err
	}
	o := client.SubResourcePatchOptions{}
	if o.ApplyOptions(options); o.FieldManager == v1alpha1.FieldManagerNomination {
		return s.c.nominate(client.ObjectKeyFromObject(object), data)
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
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodepools"}, pool.Name,
				fmt.Errorf("the object has been modified"))
		}
		is := found.DeepCopy()
		pool.Status.DeepCopyInto(&is.Status)
		s.c.p.w.api.put(kindPool, is)
		copyInto(is, pool)
		return nil
	})
}

// The ways in which an API server refuses an eviction: a disruption budget, two of them, an
// admission webhook.
const (
	guardBudget  = "budget"
	guardBudgets = "budgets"
	guardWebhook = "webhook"
)

// Create implements client.SubResourceWriter, for evictions.
func (s *subClient) Create(_ context.Context, object, body client.Object,
	options ...client.SubResourceCreateOption) error {
	dry := len((&client.SubResourceCreateOptions{}).ApplyOptions(options).DryRun) > 0
	return s.c.p.write(fmt.Sprintf("evict %s, dry run: %v", object.GetName(), dry), func() error {
		at := client.ObjectKeyFromObject(object)
		pod := s.c.p.w.api.pod(at)
		if pod == nil {
			return notFound(kindPod, at.Name)
		}
		if e, ok := body.(*policyv1.Eviction); ok && !meant(e.DeleteOptions, pod) {
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, at.Name, fmt.Errorf("uid does not match"))
		}
		if err := guards(pod); err != nil || dry {
			return err
		}
		s.c.p.w.api.remove(kindPod, at)
		return nil
	})
}

// meant reports whether the preconditions name this pod.
func meant(o *metav1.DeleteOptions, pod *corev1.Pod) bool {
	return o == nil || o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID == pod.UID
}

// guards is what the API server answers to an eviction that it refuses, nil where it evicts.
func guards(pod *corev1.Pod) error {
	switch pod.Annotations[annotationGuarded] {
	case "":
		return nil
	case guardBudgets:
		return apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
	case guardWebhook:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name,
			errors.New("a webhook denied the request"))
	}
	return apierrors.NewTooManyRequests("a disruption budget does not allow it", 1)
}
