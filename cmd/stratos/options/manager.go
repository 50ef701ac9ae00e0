package options

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stratos-sh/stratos/webhook"
)

// The manager elects a leader on a lease of its own, in the release's namespace (the chart puts its name there), and reports in events of the core
// group who leads. The create cannot be limited to a name: the object has none yet when it is judged.
//
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,resourceNames=stratos,verbs=get;update
// +kubebuilder:rbac:namespace=release,groups="",resources=events,verbs=create;patch

// Manager translates the settings for controller-runtime.
func (o *Options) Manager(scheme *runtime.Scheme) ctrl.Options {
	// Nothing is registered with the server where there is no certificate, and the manager starts it only if something is.
	return ctrl.Options{
		WebhookServer:                 webhook.NewServer(o.WebhookPort, o.CertDir),
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress:        o.ProbeBindAddress,
		PprofBindAddress:              o.PprofBindAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              "stratos",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// Managed fields are a third of a Pod's memory and nobody here reads them.
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: slimPod}},
		},
	}
}

// slimPod drops what no decision reads of a pod before it is cached: with 50,000 pods the difference is hundreds of MiB.
func slimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	pod.Spec.Volumes = nil
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.VolumeMounts, c.Command, c.Args = nil, nil, nil, nil, nil
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
		}
	}
	return pod, nil
}
