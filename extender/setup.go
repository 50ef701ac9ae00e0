package extender

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/extender/cluster"
)

// Setup is what SetupWithManager needs.
type Setup struct {
	Server  Options
	State   *cluster.State
	Starter Starter
}

// Parts are what the extender's answers and its upkeep work with.
type Parts struct {
	State   *cluster.State
	Starter Starter
	// Client writes to Nodes.
	Client client.Writer
	Events events.EventRecorder
	Now    func() time.Time
	Log    logr.Logger
}

// New returns the extender without its server.
func New(p Parts) *Extender {
	return &Extender{state: p.State, starter: p.Starter, events: p.Events, now: p.Now}
}

// Events about pending pods.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the extender to the manager: the HTTP server and the upkeep of claims. All
// run on every replica. The returned Server tells its address.
func SetupWithManager(mgr manager.Manager, s Setup) (*Server, error) {
	observed, err := newObserved(metrics.Registry, s.State, time.Now)
	if err != nil {
		return nil, err
	}
	s.State.Listen(cluster.Listener{PodServed: observed.released})
	recorder := mgr.GetEventRecorder("stratos-extender")
	parts := Parts{State: s.State, Starter: s.Starter, Client: mgr.GetClient(), Events: recorder,
		Now: time.Now, Log: mgr.GetLogger().WithName("extender")}
	e := New(parts)
	server, err := NewServer(e, metrics.Registry, s.Server)
	if err != nil {
		return nil, err
	}
	for _, r := range []manager.Runnable{
		server,
		NewUpkeep(parts),
	} {
		if err := mgr.Add(r); err != nil {
			return nil, err
		}
	}
	if err := mgr.AddReadyzCheck("extender", readyz(s.State)); err != nil {
		return nil, err
	}
	return server, nil
}
