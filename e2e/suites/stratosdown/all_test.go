package stratosdown

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/minors"
)

// wiring is how the cluster uses Stratos.
type wiring struct {
	set string
	// scheduler is that of the pods that wait for the pool.
	scheduler string
	// static: a second scheduler on the control plane, which stays when Stratos goes.
	static bool
	// said is what the scheduler says of a pending pod meanwhile; "" where there is none to say
	// anything.
	said string
	// optsIn: pods of namespaces that have opted in are given to stratos-scheduler.
	optsIn bool
}

// TestAllReplicasGone kills every process of Stratos's pods at once and has the pods' node lost.
// Everything else in the cluster goes on, Stratos's pods and cert-manager's come back by
// themselves, and pods that waited for a pool get a node once Stratos is back.
func TestAllReplicasGone(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]wiring{
		"dedicated scheduler": {set: "default", scheduler: v1alpha1.SchedulerName, optsIn: true},
		"static pod, control plane": {set: "exposed", scheduler: v1alpha1.SchedulerName, optsIn: true, static: true,
			said: corev1.PodReasonSchedulerError},
		"no change of any scheduler": {set: "no-scheduler", scheduler: corev1.DefaultSchedulerName,
			said: corev1.PodReasonUnschedulable},
	} {
		t.Run(name, w.test)
	}
}

func (w wiring) test(t *testing.T) {
	t.Parallel()
	s := newSite(t, w.set)
	s.start(t)
	if w.static {
		s.startStatic(t)
	}
	stratos, issuer := s.chart.Deployment(t), certManagers()
	assert.Create(t, s.Rig, issuer)
	s.warm(t, 2)
	served := poolPod("served", w.scheduler)
	assert.Serve(t, s.Rig, served)
	w.awaitOptIn(t, s)
	stratosPods, issuerPods := s.awaitPods(t, stratos, nil), s.awaitPods(t, issuer, nil)

	s.first.Kill()
	s.second.Kill()
	s.lose(t, stratos)
	s.lose(t, issuer)
	t.Run("Stratos's pods and cert-manager's are scheduled", func(t *testing.T) {
		s.awaitPods(t, stratos, stratosPods)
		s.awaitPods(t, issuer, issuerPods)
	})
	t.Run("so are all other pods", func(t *testing.T) {
		for _, namespace := range []string{metav1.NamespaceDefault, team, metav1.NamespaceSystem} {
			pod := plain("meanwhile", namespace)
			assert.Create(t, s.Rig, pod)
			if on := assert.AwaitBound(t, s.Rig, pod); !strings.HasPrefix(on[0], "ordinary-") {
				t.Errorf("pod of namespace %s is on %s", namespace, on[0])
			}
		}
	})
	waiting := poolPod("waiting", w.scheduler)
	t.Run("a pod that needs the pool waits", func(t *testing.T) {
		assert.Create(t, s.Rig, waiting)
		if w.said != "" {
			assert.AwaitPending(t, s.Rig, waiting, w.said)
		}
	})
	assert.MustRun(t, s.Rig, served)
	if n := len(assert.Starts(t, s.Rig)); n != 1 {
		t.Fatalf("%d starts while Stratos was gone", n-1)
	}
	t.Run("it gets its node when Stratos is back", func(t *testing.T) {
		s.first.Restart(t)
		s.second.Restart(t)
		assert.AwaitRunning(t, s.Rig, waiting)
		if n := len(assert.Starts(t, s.Rig)); n != 2 {
			t.Errorf("%d starts for one pod", n-1)
		}
	})
}

// awaitOptIn waits until the API server asks the webhook about pods of the team, which is never
// said to have happened otherwise. Those of the namespaces that must not depend on Stratos are not
// given to it though they have opted in.
func (w wiring) awaitOptIn(t *testing.T, s *site) {
	t.Helper()
	want := map[bool]string{true: v1alpha1.SchedulerName, false: corev1.DefaultSchedulerName}[w.optsIn]
	assert.Eventually(t, "scheduler "+want+" of the team's pods", func(ctx context.Context) (string, error) {
		pod := plain("probe", team)
		err := s.Client.Create(ctx, pod, client.DryRunAll)
		return pod.Spec.SchedulerName, err
	}, func(scheduler string) bool { return scheduler == want })
	for _, namespace := range []string{certManager, assert.ReleaseNamespace, metav1.NamespaceSystem} {
		pod := plain("probe", namespace)
		if err := s.Client.Create(t.Context(), pod, client.DryRunAll); err != nil ||
			pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			t.Errorf("a pod of %s is given to %s, %v", namespace, pod.Spec.SchedulerName, err)
		}
	}
}

// startStatic starts the scheduler of docs/scheduler.md's static pod: with the control plane's
// identity and a lease of its own, asking over mutual TLS.
func (s *site) startStatic(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := s.ControlPlane.WriteClientCertificate(dir, "stratos-scheduler"); err != nil {
		t.Fatal(err)
	}
	minors := minors.Supported()
	config, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
		Wiring: extender.WiringControlPlane, KubernetesMinor: minors[len(minors)-1],
		Kubeconfig:  controlplane.KubeconfigPlaceholder,
		LeaderElect: true, LeaseNamespace: metav1.NamespaceSystem, LeaseName: "stratos-scheduler",
		ExtenderURL: "https://" + strings.TrimPrefix(s.first.Extender, "http://"),
		TLS: extender.SchedulerTLS{
			CAFile: dir + "/ca.crt", CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key", ServerName: "localhost",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "static-scheduler",
		ConfigYAML: config}); err != nil {
		t.Fatal(err)
	}
}
