package oracles

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const nodeadmModule = "github.com/awslabs/amazon-eks-ami/nodeadm"

// nodeadm builds the program of testdata/nodeadm in a copy of the module, because it uses packages
// that are internal there. The module's vendor folder is empty but for its list, so it is left out.
func nodeadm(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile("testdata/nodeadm/main.go")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(exec.Command("go", "mod", "download", "-json", nodeadmModule))
	if err != nil {
		t.Fatalf("NOT RUN: nodeadm: %v", err)
	}
	var module struct{ Version, Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("nodeadm-%s-%x", module.Version, sha256.Sum256(program))
	return filepath.Join(cached(t, name[:len(name)-54], func(folder string) error {
		work := t.TempDir()
		if err := os.CopyFS(work, os.DirFS(module.Dir)); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(work, "vendor")); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(work, "cmd", "oracle"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, "cmd", "oracle", "main.go"), program, 0o644); err != nil {
			return err
		}
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
			"-o", filepath.Join(folder, "oracle"), "./cmd/oracle")
		build.Dir, build.Env = work, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		_, err := run(build)
		return err
	}), "oracle")
}

// metadata is the instance metadata service, as far as nodeadm asks it.
func metadata(t *testing.T, userData string) string {
	t.Helper()
	answers := map[string]string{
		"/latest/api/token":            "token",
		"/latest/user-data":            userData,
		"/latest/meta-data/mac":        "02:00:00:00:00:01",
		"/latest/meta-data/local-ipv4": "10.0.0.7",
		"/latest/dynamic/instance-identity/document": `{"instanceId": "i-0123456789abcdef0", "region": "eu-west-1",
			"instanceType": "m5.large", "availabilityZone": "eu-west-1a"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
		if _, err := io.WriteString(w, answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// node is what nodeadm makes of user data.
type node struct {
	// spec is that of the merged NodeConfig.
	spec map[string]any
	// kubelet is the kubelet's configuration in effect: nodeadm's own file with the user's above it.
	kubelet map[string]any
	// flags are those that the kubelet gets. A flag beats the configuration.
	flags  map[string]any
	labels map[string]any
}

// configure lets nodeadm configure the kubelet. nodeadm writes to /etc and /var, so it gets another
// root. The error is that of nodeadm.
func configure(t *testing.T, userData string) (node, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("NOT RUN: nodeadm: it needs another root folder, which only root can give it")
	}
	program := nodeadm(t)
	root, err := os.MkdirTemp(filepath.Dir(filepath.Dir(program)), "root-") // where it can be linked to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for _, folder := range []string{"dev", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(root, "usr", "bin", "kubelet")); err != nil {
		t.Fatal(err)
	}
	out, err := run(&exec.Cmd{
		Path: "/usr/bin/kubelet", Args: []string{"oracle"}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Chroot: root},
		Env: []string{
			"PATH=/usr/bin", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata(t, userData),
			"ECR_CREDENTIAL_PROVIDER_BIN_PATH=/usr/bin/kubelet", // it only has to be there
		},
	})
	if err != nil {
		return node{}, err
	}
	var n node
	if err := json.Unmarshal(out, &n.spec); err != nil {
		t.Fatal(err)
	}
	n.kubelet = kubeletConfiguration(t, filepath.Join(root, "etc", "kubernetes", "kubelet"))
	n.flags, n.labels = kubeletFlags(t, readFile(t, filepath.Join(root, "etc", "eks", "kubelet", "environment")))
	return n, nil
}

// What the golden files are made with: testCluster and testKubelet of provider/userdata.
const (
	clusterName = "c"
	endpoint    = "https://ABC.gr7.eu-west-1.eks.amazonaws.com"
	serviceCIDR = "172.20.0.0/16"
	clusterDNS  = "172.20.0.10"
	ca          = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
	maxPods     = 58
)

func nodeLabels() map[string]string {
	return map[string]string{"stratos.sh/pool": "web", "example.com/tier": "web", "topology.kubernetes.io/zone": "a"}
}

// userFields is what the users of the golden files set in their NodeConfigs.
type userFields struct {
	instance map[string]any
	kubelet  map[string]any
	flags    []any
	labels   map[string]any
}

// userNodeConfigs has the golden files with a NodeConfig. This nodeadm drops what it does not know:
// featureGates and fieldOfTomorrow.
func userNodeConfigs() map[string]userFields {
	return map[string]userFields{
		"nodeconfig": {
			instance: map[string]any{"strategy": "Mount"}, kubelet: map[string]any{"containerLogMaxSize": "50Mi"},
			flags: []any{"--v=3", "--node-labels=team=blue"}, labels: map[string]any{"team": "blue"},
		},
		"nodeconfigs": {kubelet: map[string]any{"podPidsLimit": 2000.0}},
		"mime":        {kubelet: map[string]any{"shutdownGracePeriod": "30s"}},
	}
}

func TestNodeadmTakesClusterTaintsLabelsAndPods(t *testing.T) {
	taints := []any{
		map[string]any{"effect": "NoExecute", "key": "dedicated", "value": "web"},
		map[string]any{"effect": "NoSchedule", "key": "dedicated", "value": "web"},
		map[string]any{"effect": "NoSchedule", "key": "stratos.sh/standby"},
	}
	for _, g := range goldens(t, "al2023") {
		t.Run(g.name, func(t *testing.T) {
			got, err := configure(t, g.text)
			if err != nil {
				t.Fatal(err)
			}
			user := userNodeConfigs()[g.name]
			config := map[string]any{"maxPods": float64(maxPods), "registerWithTaints": taints}
			maps.Copy(config, user.kubelet)
			storage := map[string]any{}
			maps.Copy(storage, user.instance)
			want := map[string]any{
				"cluster": map[string]any{
					"name": clusterName, "apiServerEndpoint": endpoint, "certificateAuthority": ca, "cidr": serviceCIDR,
				},
				"containerd": map[string]any{}, "instance": map[string]any{"localStorage": storage},
				"kubelet": map[string]any{"config": config, "flags": append(user.flags,
					"--node-labels=example.com/tier=web,stratos.sh/pool=web,topology.kubernetes.io/zone=a",
					"--node-status-update-frequency=10s", "--eviction-hard=memory.available<5%")},
			}
			if diff := cmp.Diff(want, got.spec); diff != "" {
				t.Errorf("the merged NodeConfig (-want +got):\n%s", diff)
			}
			config["clusterDNS"] = []any{clusterDNS}
			for field, value := range config {
				if diff := cmp.Diff(value, got.kubelet[field]); diff != "" {
					t.Errorf("%s of the kubelet (-want +got):\n%s", field, diff)
				}
			}
			labels := map[string]any{}
			maps.Copy(labels, user.labels)
			for key, value := range nodeLabels() {
				labels[key] = value
			}
			if diff := cmp.Diff(labels, got.labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEachUserNodeConfigIsAGoldenFile keeps the table from naming files that are gone.
func TestEachUserNodeConfigIsAGoldenFile(t *testing.T) {
	known := map[string]string{}
	for _, g := range goldens(t, "al2023") {
		known[g.name] = g.user
	}
	for name := range userNodeConfigs() {
		if !strings.Contains(known[name], "NodeConfig") {
			t.Errorf("there is no NodeConfig in %s", name)
		}
	}
}
