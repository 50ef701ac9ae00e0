package options

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/webhook"
)

// The leader's lease, as short as that of the scheduler beside it: after a crash pods wait at most leaseDuration until somebody looks after
// their nodes again. A leader that stops gives the lease back at once.
const (
	leaseName     = "stratos"
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
)

// shutdownTime is how long the parts may take to end: longer than any of them needs (the extender's last answers and a start under way take
// five seconds), shorter than a pod's grace. The lease is given back after that, so a part that hangs must not hold it.
const shutdownTime = 10 * time.Second

// The manager elects a leader on a lease of its own, in the release's namespace (the chart puts its name there), and reports in events of the core
// group who leads. The create cannot be limited to a name: the object has none yet when it is judged.
//
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:namespace=release,groups=coordination.k8s.io,resources=leases,resourceNames=stratos,verbs=get;update
// +kubebuilder:rbac:namespace=release,groups="",resources=events,verbs=create

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
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(shutdownTime),
		// Managed fields are a third of a Pod's memory and nobody here reads them.
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:              {Transform: slimPod},
				&corev1.PersistentVolume{}: {Transform: slimVolume},
			},
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
	pod.Spec.Volumes = slimVolumes(pod.Spec.Volumes)
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.VolumeMounts, c.Args = nil, nil, nil, nil
			if len(c.Command) != 1 || c.Command[0] != v1alpha1.NoSuchCommand { // by it a pod is known that pulls images and does no work
				c.Command = nil
			}
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
		}
	}
	return pod, nil
}

// slimVolumes keeps which volume claims a pod uses; those of generic ephemeral volumes follow from the volume's name.
func slimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}})
		case v.Ephemeral != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
	}
	return kept
}

// slimVolume drops where the data is: decisions read from which nodes it can be reached.
func slimVolume(o any) (any, error) {
	pv, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return o, nil
	}
	pv.ManagedFields = nil
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{}
	return pv, nil
}
