package suite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestStaticPodScheduler is the second wiring, on a real control plane by the files of
// docs/scheduler.md: a kube-scheduler that its kubelet runs asks the extender over mutual TLS.
func TestStaticPodScheduler(t *testing.T) {
	const clusterIP = "10.96.0.50"
	l := cluster.New(t)
	t.Cleanup(func() { reinstall(t, l) })
	out, err := l.RunHelm(t.Context(), "upgrade", cluster.Release, "../../../charts/stratos", "--namespace",
		cluster.ReleaseNamespace, "--reset-then-reuse-values",
		"--set", "scheduler.enabled=false", "--set", "extender.expose=true", "--set", "extender.service.clusterIP="+clusterIP,
		"--wait", "--timeout=4m")
	if err != nil {
		t.Fatalf("helm upgrade: %v\n%s", err, out)
	}
	l.AwaitRelease(t)
	install := filesOfScheduler(t, l, clusterIP)
	controlPlane := l.Name + "-control-plane"
	const manifest = "/etc/kubernetes/manifests/stratos-scheduler.yaml"
	t.Cleanup(func() {
		if _, err := cluster.Docker(context.Background(), "exec", controlPlane, "rm", "-rf", manifest,
			"/etc/kubernetes/stratos"); err != nil {
			t.Error(err)
		}
	})
	cluster.MustDocker(t, "exec", controlPlane, "mkdir", "-p", "/etc/kubernetes/stratos")
	cluster.MustDocker(t, "cp", filepath.Join(install, "stratos")+"/.", controlPlane+":/etc/kubernetes/stratos")
	cluster.MustDocker(t, "cp", filepath.Join(install, "stratos-scheduler.yaml"), controlPlane+":"+manifest)

	cluster.Await(t, "the static pod's lease", func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		err := l.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "stratos-scheduler"}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, controlPlane),
			err
	})
	image := l.Push(t, "static/web:1")
	makePool(t, l, poolOf("static", 1, 1, image))
	l.Namespace(t, "static")
	events := l.WatchContainers(t)
	before := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`)
	w := cluster.Workload{Name: "web", Namespace: "static", Pool: "static", Image: image, CPU: podCPU, Replicas: 1}
	l.Create(t, w.Deployment())
	l.AnswersHTTP(t, l.AwaitReady(t, "static", "web", 1))
	if after := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`); after <= before {
		t.Errorf("the extender was not asked: %v requests before, %v after", before, after)
	}
	if got := len(events.Of("start", "static")); got != 1 {
		t.Errorf("%d starts, want 1", got)
	}
}

// filesOfScheduler writes the five files: certificates from the Secret, the configuration as the
// program prints it, the manifest as the page has it.
func filesOfScheduler(t *testing.T, l *cluster.Cluster, clusterIP string) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, text []byte) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{}
	cluster.Await(t, "the scheduler's client certificate", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKey{Namespace: cluster.ReleaseNamespace, Name: "stratos-scheduler-client"},
			secret)
		return err == nil && len(secret.Data["tls.crt"]) > 0, err
	})
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		write("stratos/"+name, secret.Data[name])
	}
	pods, err := l.StratosPods(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("%d Stratos pods: %v", len(pods), err)
	}
	config := cluster.MustDocker(t, "run", "--rm", "--network", "none", pods[0].Spec.Containers[0].Image,
		"scheduler-config",
		"--wiring", "control-plane", "--kubernetes-version", "1.36",
		"--lease-namespace", "kube-system", "--lease-name", "stratos-scheduler", "--scheduler-kubeconfig",
		"/etc/kubernetes/scheduler.conf",
		"--extender-url", "https://"+clusterIP+":9444", "--extender-server-name", "stratos-extender.stratos-system.svc",
		"--extender-ca-file", "/etc/kubernetes/stratos/ca.crt", "--extender-cert-file", "/etc/kubernetes/stratos/tls.crt",
		"--extender-key-file", "/etc/kubernetes/stratos/tls.key")
	write("stratos/scheduler.yaml", []byte(config))
	page, err := os.ReadFile("../../../docs/scheduler.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "cat > stratos-scheduler.yaml <<'EOF'\n")
	manifest, _, ends := strings.Cut(after, "EOF\n")
	if !found || !ends {
		t.Fatal("docs/scheduler.md has no manifest of the static pod any more")
	}
	write("stratos-scheduler.yaml", []byte(manifest))
	return folder
}
