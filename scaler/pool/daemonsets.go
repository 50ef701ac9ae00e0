package pool

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DaemonSets are all of the cluster's, not to be changed: they are the cache's own.
func DaemonSets(ctx context.Context, reader client.Reader) ([]*appsv1.DaemonSet, error) {
	list := &appsv1.DaemonSetList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	out := make([]*appsv1.DaemonSet, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
