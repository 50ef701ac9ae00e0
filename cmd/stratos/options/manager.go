package options

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stratos-sh/stratos/cmd/stratos/slim"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/webhook"
)

// shutdownTime is how long the parts may take to end: longer than any of them needs (the extender's
// last answers and a start under way take five seconds), shorter than a pod's grace. The lease is
// given back after that, so a part that hangs must not hold it.
const shutdownTime = 10 * time.Second

// The manager elects a leader on a lease of its own, in the release's namespace (the chart puts its
// name there), and reports in events of the core group who leads. The create cannot be limited to a
// name: the object has none yet when RBAC checks the request.
//
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,resourceNames=stratos,verbs=get;update
// +kubebuilder:rbac:namespace=release,groups="",resources=events,verbs=create

// Manager translates the settings for controller-runtime.
func (o *Options) Manager(scheme *runtime.Scheme) ctrl.Options {
	// Nothing is registered with the server where there is no certificate, and the manager starts it
	// only if something is.
	return ctrl.Options{
		WebhookServer:                 webhook.NewServer(o.WebhookPort, o.CertDir),
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress:        o.ProbeBindAddress,
		PprofBindAddress:              o.PprofBindAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              v1alpha1.LeaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(extender.LeaseDuration),
		RenewDeadline:                 new(extender.RenewDeadline),
		RetryPeriod:                   new(extender.RetryPeriod),
		GracefulShutdownTimeout:       new(shutdownTime),
		Cache:                         slim.CacheOptions(),
	}
}
