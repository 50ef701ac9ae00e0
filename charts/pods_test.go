package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func deployment(t *testing.T, o object) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	o.decode(t, d)
	return d
}

// containers are the pod's, sidecars among them, by name.
func containers(d *appsv1.Deployment) map[string]corev1.Container {
	all := map[string]corev1.Container{}
	for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
		all[c.Name] = c
	}
	return all
}

// TestStratosStartsFirstAndStopsLast: beside a scheduler Stratos is a sidecar, which the kubelet
// starts before and ends after it.
func TestStratosStartsFirstAndStopsLast(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		pod := d.Spec.Template.Spec
		scheduler, dedicated := containers(d)["scheduler"]
		if !dedicated {
			if len(pod.InitContainers) != 0 || len(pod.Containers) != 1 || pod.Containers[0].Name != "stratos" {
				t.Errorf("%s: without a scheduler Stratos is the one container", o)
			}
			continue
		}
		if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 || pod.InitContainers[0].Name != "stratos" {
			t.Fatalf("%s: want Stratos as the init container and the scheduler as the container", o)
		}
		stratos := pod.InitContainers[0]
		if stratos.RestartPolicy == nil || *stratos.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: an init container without restartPolicy Always would have to end before the scheduler starts", o)
		}
		if stratos.StartupProbe == nil || stratos.StartupProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("%s: the scheduler starts before Stratos is ready", o)
		}
		if probe := scheduler.LivenessProbe; probe == nil || probe.HTTPGet.Path != "/readyz" {
			t.Errorf("%s: the scheduler's liveness does not ask Stratos", o)
		}
	}
}

// TestStratosIsReadyAndDrains: not ready before caches are synced, and answering while others learn
// that the pod goes.
func TestStratosIsReadyAndDrains(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		stratos := containers(d)["stratos"]
		if probe := stratos.ReadinessProbe; probe == nil || probe.HTTPGet.Path != "/readyz" {
			t.Errorf("%s: readiness does not ask /readyz", o)
		}
		grace := d.Spec.Template.Spec.TerminationGracePeriodSeconds
		if stratos.Lifecycle == nil || stratos.Lifecycle.PreStop.Sleep == nil || grace == nil ||
			*grace <= 2*stratos.Lifecycle.PreStop.Sleep.Seconds {
			t.Errorf("%s: no time to drain: grace period %v", o, grace)
		}
		unavailable := d.Spec.Strategy.RollingUpdate.MaxUnavailable
		if !d.Spec.Template.Spec.HostNetwork && (unavailable == nil || unavailable.IntValue() != 0) {
			t.Errorf("%s: a rollout takes a pod before the next is ready", o)
		}
	}
}

// TestTheExtenderIsNeverOpen: over the network with the clients' CA, over loopback without a port,
// and never both. A loopback that is the host's asks for a certificate too.
func TestTheExtenderIsNeverOpen(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		stratos := containers(d)["stratos"]
		port := valuesOf(t, o.set).Ports.Extender
		loopback := slices.Contains(stratos.Args, fmt.Sprintf("--extender-bind-address=127.0.0.1:%d", port))
		network := slices.Contains(stratos.Args, fmt.Sprintf("--extender-bind-address=:%d", port))
		withCA := slices.Contains(stratos.Args, "--client-ca=/etc/stratos/tls/ca.crt")
		hasPort := slices.ContainsFunc(stratos.Ports, func(p corev1.ContainerPort) bool { return p.Name == "extender" })
		if loopback == network || withCA != (network || d.Spec.Template.Spec.HostNetwork) || network != hasPort {
			t.Errorf("%s: loopback %v, network %v, clients' CA %v, port %v", o, loopback, network, withCA, hasPort)
		}
	}
}

// TestEveryImageIsAValue: a mirror replaces each of them.
func TestEveryImageIsAValue(t *testing.T) {
	want := map[string]map[string]string{
		"default": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0",
			"scheduler": "registry.k8s.io/kube-scheduler:v1.37.2"},
		"minor-1-34": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0",
			"scheduler": "registry.k8s.io/kube-scheduler:v1.34.1"},
		"everything-on": {"stratos": "registry.example.com/stratos@sha256:",
			"scheduler": "registry.k8s.io/kube-scheduler:v1.37.2"},
		// The patch that this version of Stratos was tested with.
		"minor-cut": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0",
			"scheduler": "registry.k8s.io/kube-scheduler:v1.35.4"},
		"scheduler-values": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0",
			"scheduler": "registry.k8s.io/kube-scheduler:v1.35.9"},
		"minor-1-35": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0",
			"scheduler": "registry.example.com/kube-scheduler@sha256:"},
		"no-scheduler": {"stratos": "ghcr.io/stratos-sh/stratos:v0.1.0"},
	}
	for _, o := range ofKind(t, "Deployment") {
		images, known := want[o.set]
		if !known {
			continue
		}
		got := containers(deployment(t, o))
		if len(got) != len(images) {
			t.Errorf("%s: %d containers, want %d", o, len(got), len(images))
		}
		for name, image := range images {
			if !strings.HasPrefix(got[name].Image, image) {
				t.Errorf("%s: image of %s is %s, want %s", o, name, got[name].Image, image)
			}
		}
	}
}

// TestTheFakeCloudIsOneProcess: two would each have a cloud of their own.
func TestTheFakeCloudIsOneProcess(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		want := map[string]int32{"fake": 1, "one-replica": 1, "everything-on": 3}[o.set]
		if want == 0 {
			want = 2
		}
		if *d.Spec.Replicas != want {
			t.Errorf("%s: %d replicas, want %d", o, *d.Spec.Replicas, want)
		}
	}
}
