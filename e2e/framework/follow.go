package framework

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow calls see with what there is, as added, then from a goroutine with each event after that,
// until the context ends. A watch that breaks is resumed after its last event: the API server ends
// those of clients that are slow for a moment. wait returns when see is no longer called, with the
// reason why a watch could not be resumed, nil where the context has ended.
func Follow(ctx context.Context, c client.WithWatch, list client.ObjectList, see func(watch.Event),
	options ...client.ListOption) (wait func() error, err error) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, append(options[:len(options):len(options)], &client.ListOptions{Raw: &from})...)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	for _, o := range objects {
		see(watch.Event{Type: watch.Added, Object: o})
	}
	ended := make(chan error, 1)
	go func() {
		var broken error
		for event := range events.ResultChan() {
			if event.Type == watch.Error {
				broken = fmt.Errorf("watch %T: %w", list, apierrors.FromObject(event.Object))
				continue // the last one
			}
			see(event)
		}
		ended <- broken
	}()
	return func() error { return <-ended }, nil
}
