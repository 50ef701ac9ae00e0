package helm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// site is what the readers of all pages stand on: a cluster in which the chart is installed, and
// the programs they call.
type site struct {
	*cluster
	// helms are Helm 4, whose renders are looked at, and Helm 3.
	helms   []string
	stratos string
}

// newSite installs the chart for real, so that upgrades, gets and deletions of the pages find
// something.
func newSite(t *testing.T) *site {
	t.Helper()
	g := &site{cluster: newCluster(t)}
	g.stratos = filepath.Join(t.TempDir(), "stratos")
	output(t, string(tree), "go", "build", "-buildvcs=false", "-o", g.stratos, "./cmd/stratos")
	for _, major := range []string{"v4", "v3"} { // built where they are not yet
		g.helms = append(g.helms, strings.TrimSpace(output(t, ".", "go", "tool", "-n", "helm.sh/helm/"+major+"/cmd/helm")))
	}
	run(t, g.environment(t.TempDir()), g.helms[0], "install", "stratos", tree.ChartDir(), "--namespace", "stratos-system",
		"--create-namespace",
		"--set", "clusterName=my-cluster", "--set", "cloudProvider=aws")
	// No server answers them here; the test calls package webhook instead.
	g.kubectl(t, "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")
	g.likeControllers(t)
	return g
}

// likeControllers writes what those would have who are not here: cert-manager a condition of the
// certificate and the Secret of a client certificate, which the default wiring does not have; a
// scheduler on the control plane its lease.
func (g *site) likeControllers(t *testing.T) {
	t.Helper()
	ca := g.plane.CAFile()
	g.kubectl(t, "-n", "stratos-system", "create", "secret", "generic", "stratos-scheduler-client",
		"--from-file=ca.crt="+ca, "--from-file=tls.crt="+ca, "--from-file=tls.key="+ca)
	g.kubectl(t, "-n", "stratos-system", "patch", "certificate", "stratos-serving", "--subresource=status", "--type=merge",
		"-p", `{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}}`)
	lease := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": "stratos-scheduler", "namespace": "kube-system"},
		"spec":     map[string]any{"holderIdentity": "control-plane_1"}}}
	if _, err := g.apply(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

func (g *site) kubectl(t *testing.T, args ...string) {
	t.Helper()
	run(t, g.environment(t.TempDir()), g.plane.KubectlPath(), args...)
}

// environment is that of a program which a reader with this home calls. What the page exports has
// no part in it: the cluster is here.
func (g *site) environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + g.plane.Kubeconfig()}
}

// output runs a command of the go tool and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		var said *exec.ExitError
		errors.As(err, &said)
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said.Stderr)
	}
	return string(out)
}

func run(t *testing.T, environment []string, path string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), path, args...)
	command.Env = environment
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
}
