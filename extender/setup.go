package extender

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
)

// Setup is what SetupWithManager needs.
type Setup struct {
	Server  Options
	Ledger  *claim.Ledger
	Starter Starter
	// Informers are where the view listens; nil means the manager's cache. A test hands in one that lags.
	Informers cache.Informers
}

// SetupWithManager adds the extender to the manager: the view over its informers, the HTTP server and the upkeep of
// claims. All run on every replica. The returned Server tells its address.
func SetupWithManager(mgr manager.Manager, s Setup) (*Server, error) {
	observed, err := newObserved(metrics.Registry, s.Ledger)
	if err != nil {
		return nil, err
	}
	view := NewView(s.Ledger, time.Now, observed.released)
	informers := s.Informers
	if informers == nil {
		informers = mgr.GetCache()
	}
	recorder := mgr.GetEventRecorder("stratos-extender")
	e := &Extender{view: view, ledger: s.Ledger, starter: s.Starter, events: recorder, now: time.Now}
	server, err := NewServer(e, metrics.Registry, s.Server)
	if err != nil {
		return nil, err
	}
	for _, r := range []manager.Runnable{
		&feed{view: view, informers: informers},
		server,
		&upkeep{ledger: s.Ledger, client: mgr.GetClient(), events: recorder, now: time.Now, log: mgr.GetLogger().WithName("extender")},
	} {
		if err := mgr.Add(r); err != nil {
			return nil, err
		}
	}
	if err := mgr.AddReadyzCheck("extender", readyz(view)); err != nil {
		return nil, err
	}
	return server, nil
}

// feed passes informer events on to the view.
type feed struct {
	view      *View
	informers cache.Informers
}

// NeedLeaderElection is false: every replica has a view.
func (f *feed) NeedLeaderElection() bool { return false }

// Start registers with the informers and returns when ctx ends.
func (f *feed) Start(ctx context.Context) error {
	v := f.view
	var synced []func() bool
	for _, watch := range []struct {
		object client.Object
		to     toolscache.ResourceEventHandler
	}{
		{&v1alpha1.NodePool{}, eventsTo(v.SetPool, func(p *v1alpha1.NodePool) { v.DeletePool(v1alpha1.PoolName(p.Name)) })},
		{&corev1.Node{}, eventsTo(v.SetNode, func(n *corev1.Node) { v.DeleteNode(v1alpha1.NodeName(n.Name)) })},
		{&corev1.Pod{}, eventsTo(v.SetPod, v.DeletePod)},
	} {
		informer, err := f.informers.GetInformer(ctx, watch.object)
		if err != nil {
			return fmt.Errorf("extender view: watch %T: %w", watch.object, err)
		}
		registration, err := informer.AddEventHandler(watch.to)
		if err != nil {
			return fmt.Errorf("extender view: listen to %T: %w", watch.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	v.mu.Lock()
	v.synced = func() bool {
		for _, s := range synced {
			if !s() {
				return false
			}
		}
		return true
	}
	v.mu.Unlock()
	<-ctx.Done()
	return nil
}

// eventsTo adapts two typed functions to an informer.
func eventsTo[T client.Object](set, gone func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if object, ok := o.(T); ok {
				set(object)
			}
		},
		UpdateFunc: func(_, o any) {
			if object, ok := o.(T); ok {
				set(object)
			}
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			if object, ok := o.(T); ok {
				gone(object)
			}
		},
	}
}
