// Package follow keeps lists of objects up to date by watches.
package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lists are those that one view is made of.
type Lists struct {
	client  client.WithWatch
	changed chan struct{}

	mu      sync.Mutex
	failing map[*List]error
}

// New returns no lists yet.
func New(c client.WithWatch) *Lists {
	return &Lists{client: c, changed: make(chan struct{}, 1), failing: map[*List]error{}}
}

// Changed receives after a change; several changes may be one.
func (l *Lists) Changed() <-chan struct{} { return l.changed }

func (l *Lists) notify() {
	select {
	case l.changed <- struct{}{}:
	default: // the last one was not taken yet
	}
}

// Err is why lists are not up to date at present; nil where all are. They are tried again.
func (l *Lists) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, err := range l.failing {
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })...)
}

// note remembers the outcome of a request for the list.
func (l *Lists) note(list *List, err error) {
	l.mu.Lock()
	was := l.failing[list]
	delete(l.failing, list)
	if err != nil {
		l.failing[list] = err
	}
	l.mu.Unlock()
	if (was == nil) != (err == nil) {
		l.notify()
	}
}

// List is the objects of one kind with some labels and fields.
type List struct {
	lists   *Lists
	empty   func() client.ObjectList
	options []client.ListOption
	store   toolscache.Store
}

// Follow begins to follow a list until the context ends, and returns when it is complete. kind is
// the type of its objects. It fails where the list cannot be read.
func (l *Lists) Follow(ctx context.Context, kind client.Object, empty func() client.ObjectList,
	options ...client.ListOption) (*List, error) {
	list := &List{lists: l, empty: empty, options: options}
	// An informer would try forever.
	if err := l.client.List(ctx, empty(), append(slices.Clone(options), client.Limit(1))...); err != nil {
		return nil, err
	}
	store, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: list.source(ctx), ObjectType: kind,
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { l.notify() },
			UpdateFunc: func(_, _ any) { l.notify() },
			DeleteFunc: func(any) { l.notify() },
		},
	})
	list.store = store
	go informer.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return list, nil
}

// Items are the objects of the list, which are not to be changed, in the order of their names.
func Items[T any](l *List) []T {
	if l == nil {
		return nil
	}
	objects := l.store.List()
	slices.SortFunc(objects, func(a, b any) int {
		x, y := a.(client.Object), b.(client.Object)
		return cmp.Or(strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
	})
	out := make([]T, len(objects))
	for i := range objects {
		out[i] = *objects[i].(*T)
	}
	return out
}

// source lists and watches. It has the API server list, whose answers are compressed, instead of
// sending all objects by the watch.
type source struct{ toolscache.ListWatch }

// IsWatchListSemanticsUnSupported keeps the informer from a watch that begins with all objects.
func (*source) IsWatchListSemanticsUnSupported() bool { return true }

func (l *List) source(ctx context.Context) toolscache.ListerWatcher {
	return &source{toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := l.empty()
			err := l.lists.client.List(ctx, list, l.with(&o)...)
			l.lists.note(l, err)
			return list, err
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := l.lists.client.Watch(ctx, l.empty(), l.with(&o)...)
			l.lists.note(l, err)
			return w, err
		},
	}}
}

// with adds the list's options to those of the informer.
func (l *List) with(o *metav1.ListOptions) []client.ListOption {
	return append([]client.ListOption{&client.ListOptions{Raw: o, Limit: o.Limit, Continue: o.Continue}}, l.options...)
}
