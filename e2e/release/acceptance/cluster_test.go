package acceptance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// helmDir is the module that has Helm 3 and 4 as tools.
const helmDir = root + "/e2e/helm"

func helm(major string, args ...string) []string {
	return append([]string{"go", "tool", "helm.sh/helm/" + major + "/cmd/helm"}, args...)
}

// cluster is a real control plane.
type cluster struct{ plane *controlplane.ControlPlane }

func newCluster(t *testing.T) cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first start on a machine builds the binaries
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster{plane}
}

func (c cluster) env() []string { return []string{"KUBECONFIG=" + c.plane.Kubeconfig()} }

// install installs both charts by digest, wants the image's digest on the Deployment, and removes
// all but the definitions.
func (c cluster) install(t *testing.T, major string, r pushed) {
	values, err := filepath.Abs(filepath.Join(root, "charts", "testdata", "values", "existing-secret.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) {
		t.Helper()
		mustRun(t, helmDir, c.env(), helm(major, append(args, "--namespace=stratos-system")...)...)
	}
	call("install", "stratos-crds", "oci://"+r.charts["stratos-crds"], "--plain-http", "--create-namespace")
	call("install", "stratos", "oci://"+r.charts["stratos"], "--plain-http", "--values="+values,
		"--set=image.repository="+r.host+"/stratos")
	kubectl := func(args ...string) string {
		t.Helper()
		return mustRun(t, ".", c.env(), append([]string{c.plane.KubectlPath()}, args...)...)
	}
	image := kubectl("get", "deployment", "stratos", "--namespace=stratos-system",
		"--output=jsonpath={.spec.template.spec.initContainers[?(@.name=='stratos')].image}")
	if image != r.image { // with a scheduler in the pod, Stratos is its sidecar
		t.Errorf("the Deployment has image %s, want %s", image, r.image)
	}
	if names := kubectl("get", "crd", "--output=name"); !strings.Contains(names, "nodepools.stratos.sh") {
		t.Errorf("definitions %s", names)
	}
	if plugin := kubectl("get", "deployment", "stratos", "--namespace=stratos-system",
		`--output=jsonpath={.metadata.labels.app\.kubernetes\.io/version}`); plugin != version {
		t.Errorf("the Deployment has version %s", plugin)
	}
	call("uninstall", "stratos", "--no-hooks")
	call("uninstall", "stratos-crds")
}

// krewManifest is what krew reads of a manifest to install a plugin.
type krewManifest struct {
	Spec struct {
		Version   string `json:"version"`
		Platforms []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// pluginWorks unpacks the plugin for this machine as the krew manifest says, links its binary into
// a folder on PATH as krew does, and has kubectl call it.
func (c cluster) pluginWorks(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "stratos.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest krewManifest
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, p := range manifest.Spec.Platforms {
		if p.Selector.MatchLabels["os"] != runtime.GOOS || p.Selector.MatchLabels["arch"] != runtime.GOARCH {
			continue
		}
		archive := filepath.Join(folder, p.URI[strings.LastIndex(p.URI, "/")+1:])
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != p.SHA256 {
			t.Errorf("%s has not the checksum of the manifest", archive)
		}
		store, bin := t.TempDir(), t.TempDir()
		mustRun(t, store, nil, "tar", "-xzf", archive)
		if err := os.Symlink(filepath.Join(store, p.Bin), filepath.Join(bin, "kubectl-stratos")); err != nil {
			t.Fatal(err)
		}
		c.kubectlCalls(t, bin, store, manifest.Spec.Version)
		return
	}
	t.Errorf("the manifest has no platform %s/%s", runtime.GOOS, runtime.GOARCH)
}

// kubectlCalls: without the completer on PATH kubectl completes no command of the plugin, with it
// all.
func (c cluster) kubectlCalls(t *testing.T, bin, store, version string) {
	t.Helper()
	kubectl := func(path string, args ...string) string {
		t.Helper()
		env := append(c.env(), "PATH="+path+":"+os.Getenv("PATH"))
		return mustRun(t, ".", env, append([]string{c.plane.KubectlPath()}, args...)...)
	}
	if out := kubectl(bin, "stratos", "version"); !strings.HasPrefix(out, "kubectl-stratos "+version+"\n") {
		t.Errorf("kubectl stratos version printed %s", out)
	}
	if out := kubectl(bin, "__complete", "stratos", "rep"); strings.Contains(out, "replace") {
		t.Errorf("completed without the completer: %s", out)
	}
	if out := kubectl(bin+":"+store, "__complete", "stratos", "rep"); !strings.Contains(out, "replace") {
		t.Errorf("kubectl completed %s", out)
	}
}
