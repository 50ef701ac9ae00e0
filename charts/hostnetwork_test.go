package charts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// chartValues are those values of a set that these tests look at.
type chartValues struct {
	HostNetwork bool `json:"hostNetwork"`
	Ports       struct {
		Webhook   int `json:"webhook"`
		Extender  int `json:"extender"`
		Metrics   int `json:"metrics"`
		Health    int `json:"health"`
		Scheduler int `json:"scheduler"`
	} `json:"ports"`
}

// valuesOf reads the chart's own values and, over them, those of the set.
func valuesOf(t *testing.T, set string) chartValues {
	t.Helper()
	var v chartValues
	for _, file := range []string{"stratos/values.yaml", "testdata/values/" + set + ".yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// TestPortsFollowTheValues: every port is a value, and all that name a port name the same.
func TestPortsFollowTheValues(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		want := valuesOf(t, o.set).Ports
		all := containers(deployment(t, o))
		stratos := all["stratos"]
		ports := map[string]int32{}
		for _, c := range all {
			for _, p := range c.Ports {
				ports[p.Name] = p.ContainerPort
			}
		}
		for name, port := range map[string]int{"metrics": want.Metrics, "probes": want.Health, "webhook": want.Webhook,
			"extender": want.Extender, "scheduler": want.Scheduler} {
			if got, there := ports[name]; there && got != int32(port) {
				t.Errorf("%s: port %s is %d, want %d", o, name, got, port)
			}
		}
		args := []string{fmt.Sprintf("--metrics-bind-address=:%d", want.Metrics),
			fmt.Sprintf("--health-probe-bind-address=:%d", want.Health)}
		if _, served := ports["webhook"]; served {
			args = append(args, fmt.Sprintf("--webhook-port=%d", want.Webhook))
		}
		for _, arg := range args {
			if !slices.Contains(stratos.Args, arg) {
				t.Errorf("%s: Stratos has no %s among %q", o, arg, stratos.Args)
			}
		}
		scheduler, dedicated := all["scheduler"]
		if !dedicated {
			continue
		}
		if arg := fmt.Sprintf("--secure-port=%d", want.Scheduler); !slices.Contains(scheduler.Command, arg) {
			t.Errorf("%s: the scheduler has no %s among %q", o, arg, scheduler.Command)
		}
		if got := scheduler.LivenessProbe.HTTPGet.Port.IntValue(); got != want.Health {
			t.Errorf("%s: the scheduler's liveness asks port %d, want %d", o, got, want.Health)
		}
	}
}

// TestHostNetwork: only where the values say so, and then a rollout does not wait for a host whose
// ports are free.
func TestHostNetwork(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		want := valuesOf(t, o.set).HostNetwork
		d := deployment(t, o)
		pod := d.Spec.Template.Spec
		if pod.HostNetwork != want {
			t.Errorf("%s: host network %v, want %v", o, pod.HostNetwork, want)
		}
		rolling := d.Spec.Strategy.RollingUpdate
		if want && (rolling.MaxSurge.IntValue() != 0 || rolling.MaxUnavailable.IntValue() != 1) {
			t.Errorf("%s: maxSurge %s, maxUnavailable %s: the pod of a rollout waits for free ports", o,
				rolling.MaxSurge, rolling.MaxUnavailable)
		}
		if o.set == "host-network" && (pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || pod.DNSConfig == nil ||
			len(pod.DNSConfig.Options) != 1) {
			t.Errorf("%s: DNS policy %q, configuration %v", o, pod.DNSPolicy, pod.DNSConfig)
		}
	}
}

// schedulerConfigurations are what the scheduler of each set reads.
func schedulerConfigurations(t *testing.T) map[string]*schedulerv1.KubeSchedulerConfiguration {
	t.Helper()
	found := map[string]*schedulerv1.KubeSchedulerConfiguration{}
	for _, o := range ofKind(t, "ConfigMap") {
		var m corev1.ConfigMap
		o.decode(t, &m)
		text, there := m.Data["scheduler.yaml"]
		if !there {
			continue
		}
		config := &schedulerv1.KubeSchedulerConfiguration{}
		if err := yaml.UnmarshalStrict([]byte(text), config); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
		found[o.set] = config
	}
	return found
}

// TestTheSchedulerAsksAsTheExtenderListens: plain HTTP on a loopback of the pod's own, and with a
// client certificate on the host's, which every process of the host reaches.
func TestTheSchedulerAsksAsTheExtenderListens(t *testing.T) {
	secure := 0
	configs := schedulerConfigurations(t)
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		if _, dedicated := containers(d)["scheduler"]; !dedicated {
			continue
		}
		v := valuesOf(t, o.set)
		asks := configs[o.set].Extenders[0]
		if !v.HostNetwork {
			if want := fmt.Sprintf("http://127.0.0.1:%d", v.Ports.Extender); asks.URLPrefix != want || asks.TLSConfig != nil {
				t.Errorf("%s: the scheduler asks %s with %v, want %s", o, asks.URLPrefix, asks.TLSConfig, want)
			}
			continue
		}
		secure++
		want := fmt.Sprintf("https://127.0.0.1:%d", v.Ports.Extender)
		if asks.URLPrefix != want || !asks.EnableHTTPS || asks.TLSConfig == nil || asks.TLSConfig.Insecure {
			t.Errorf("%s: the scheduler asks %s with %v, want %s and verified", o, asks.URLPrefix, asks.TLSConfig, want)
			continue
		}
		checkClientFiles(t, o, d, asks.TLSConfig)
	}
	if secure < 2 {
		t.Errorf("%d sets ask with a certificate, want 2", secure)
	}
}

// checkClientFiles wants the files in the scheduler's container, from the Secret with its
// certificate, and a name that the extender's certificate carries.
func checkClientFiles(t *testing.T, o object, d *appsv1.Deployment, files *schedulerv1.ExtenderTLSConfig) {
	t.Helper()
	secrets := map[string]string{} // mount path to Secret
	for _, m := range containers(d)["scheduler"].VolumeMounts {
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Name == m.Name && v.Secret != nil && m.ReadOnly {
				secrets[m.MountPath] = v.Secret.SecretName
			}
		}
	}
	secret := secrets["/etc/stratos/scheduler-client"]
	want := map[string]string{"host-network": "stratos-scheduler-client",
		"host-network-existing-secret": "stratos-scheduler-certificate"}[o.set]
	if secret != want {
		t.Errorf("%s: the scheduler's certificate comes from Secret %q, want %q", o, secret, want)
	}
	for file, at := range map[string]string{"ca.crt": files.CAFile, "tls.crt": files.CertFile, "tls.key": files.KeyFile} {
		if at != "/etc/stratos/scheduler-client/"+file {
			t.Errorf("%s: the scheduler reads %s at %q", o, file, at)
		}
	}
	for _, c := range ofKind(t, "Certificate") {
		certificate := &certmanagerv1.Certificate{}
		c.decode(t, certificate)
		if c.set == o.set && strings.HasSuffix(c.Metadata.Name, "-serving") &&
			!slices.Contains(certificate.Spec.DNSNames, files.ServerName) {
			t.Errorf("%s: the scheduler expects the name %q, the certificate has %q", o, files.ServerName,
				certificate.Spec.DNSNames)
		}
	}
	if !strings.HasSuffix(files.ServerName, "-webhook."+o.Metadata.Namespace+".svc") {
		t.Errorf("%s: the scheduler expects the name %q, which a certificate of tls.existingSecret need not have", o,
			files.ServerName)
	}
}
