package extender

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/view"
)

// Setup is what SetupWithManager needs.
type Setup struct {
	Server  Options
	Ledger  *claim.Ledger
	View    *view.View
	Starter Starter
}

// Events about waiting pods.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the extender to the manager: the HTTP server and the upkeep of claims. All run on every replica. The returned Server tells its address.
func SetupWithManager(mgr manager.Manager, s Setup) (*Server, error) {
	observed, err := newObserved(metrics.Registry, s.Ledger)
	if err != nil {
		return nil, err
	}
	s.View.Listen(view.Listener{Bound: observed.released})
	recorder := mgr.GetEventRecorder("stratos-extender")
	e := &Extender{view: s.View, ledger: s.Ledger, starter: s.Starter, events: recorder, now: time.Now}
	server, err := NewServer(e, metrics.Registry, s.Server)
	if err != nil {
		return nil, err
	}
	for _, r := range []manager.Runnable{
		server,
		&upkeep{ledger: s.Ledger, view: s.View, client: mgr.GetClient(), events: recorder, now: time.Now, log: mgr.GetLogger().WithName("extender")},
	} {
		if err := mgr.Add(r); err != nil {
			return nil, err
		}
	}
	if err := mgr.AddReadyzCheck("extender", readyz(s.View)); err != nil {
		return nil, err
	}
	return server, nil
}
