package suite

import (
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestBurstWithHostNetwork: Stratos in the network of its hosts, where the API server reaches no
// pod's own address. Its webhooks answer, its scheduler's pods start stopped nodes, and on the
// loopback, which is the host's now, the extender answers only to a client certificate.
func TestBurstWithHostNetwork(t *testing.T) {
	l := cluster.New(t)
	l.AwaitRelease(t)
	t.Cleanup(func() { reinstall(t, l) })
	out, err := l.RunHelm(t.Context(), "upgrade", cluster.Release, "../../../charts/stratos", "--namespace",
		cluster.ReleaseNamespace, "--reset-then-reuse-values", "--set", "hostNetwork=true",
		// The second replica needs a machine of its own, where kubeadm's scheduler has 10259.
		"--set", "tolerations[0].key=node-role.kubernetes.io/control-plane", "--set", "tolerations[0].operator=Exists",
		"--set", "ports.scheduler=11259",
		"--wait", "--timeout=10m")
	if err != nil {
		t.Fatalf("helm upgrade: %v\n%s", err, out)
	}
	l.AwaitRelease(t)
	pods, err := l.StratosPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if pod.Status.PodIP != pod.Status.HostIP {
			t.Errorf("%s has the address %s, its host %s", pod.Name, pod.Status.PodIP, pod.Status.HostIP)
		}
		refusesWithoutCertificate(t, pod.Spec.NodeName)
	}
	t.Run("admission answers", func(t *testing.T) { admissionAnswers(t, l) })

	image := l.Push(t, "hosts/web:1")
	makePool(t, l, poolOf("hosts", 2, 2, image))
	l.Namespace(t, "hosts")
	events := l.WatchContainers(t)
	before := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`)
	w := cluster.Workload{Name: "web", Namespace: "hosts", Pool: "hosts", Image: image, CPU: podCPU, Replicas: 2}
	l.Create(t, w.Deployment())
	l.AnswersHTTP(t, l.AwaitReady(t, "hosts", "web", 2))
	if after := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`); after <= before {
		t.Errorf("the extender was not asked: %v requests before, %v after", before, after)
	}
	if got := len(events.Of("start", "hosts")); got != 2 {
		t.Errorf("%d starts, want 2", got)
	}
}

// refusesWithoutCertificate asks the extender from the host itself.
func refusesWithoutCertificate(t *testing.T, host string) {
	t.Helper()
	out, err := cluster.Docker(t.Context(), "exec", host, "curl", "--silent", "--show-error", "--insecure",
		"--data", "{}", "https://127.0.0.1:9444/filter")
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("the extender on %s asks for no certificate: answer %q, error %v", host, out, err)
	}
}
