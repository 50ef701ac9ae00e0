package cluster

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow calls see with what there is and with each event after it, until the test ends. A watch
// that breaks is resumed after its last event: a machine that stands still for a minute breaks all
// of them.
func (l *Cluster) follow(t *testing.T, list client.ObjectList, see func(watch.Event), options ...client.ListOption) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	if err := l.Client.List(ctx, list, options...); err != nil {
		t.Fatal(err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		see(watch.Event{Type: watch.Added, Object: o})
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
			return l.Client.Watch(ctx, list, append(options[:len(options):len(options)], &client.ListOptions{Raw: &from})...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		for event := range events.ResultChan() {
			if event.Type == watch.Error { // the last one: a new watch would not get further
				t.Errorf("watch %T: %v", list, apierrors.FromObject(event.Object))
				continue
			}
			see(event)
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
}
