package management

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/stacks/source"
)

// The modules that have the definitions. The version of Cluster API is that of ../capi/go.mod.
const (
	clusterAPI         = "sigs.k8s.io/cluster-api"
	awsProvider        = "sigs.k8s.io/cluster-api-provider-aws/v2"
	awsProviderVersion = "v2.13.0"
)

// newManagementCluster starts a control plane with the definitions of Cluster API and its AWS
// provider, and Cluster API's core manager with its webhooks. The managers of the kubeadm and AWS
// providers do not run: what the core manager makes of a Cluster stays as it is made.
func newManagementCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, "default")
	api := pinned(t, "../capi", clusterAPI)
	certificates := t.TempDir()
	if err := c.plane.WriteServingCertificate(certificates, "cluster-api"); err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	health, webhooks := freeAddress(t), freeAddress(t)
	// The core manager converts between the versions of its own kinds.
	core := definitions(t, filepath.Join(api, "core", "config", "crd"))
	for _, definition := range core {
		definition["spec"].(object)["conversion"] = object{"strategy": "Webhook", "webhook": object{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             object{"url": "https://" + webhooks + "/convert", "caBundle": authority},
		}}
	}
	c.define(t, core)
	aws, err := source.GoModDownload(t.Context(), awsProvider, awsProviderVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(api, "controlplane", "kubeadm"),
		filepath.Join(api, "bootstrap", "kubeadm"), aws} {
		c.define(t, definitions(t, filepath.Join(folder, "config", "crd")))
	}
	_, port, err := net.SplitHostPort(webhooks)
	if err != nil {
		t.Fatal(err)
	}
	c.start(t, controlplane.Companion{
		Name: "cluster-api", Path: build(t, "../capi", clusterAPI+"/core", "cluster-api"),
		URL: "http://" + health, ReadyPath: "/readyz",
		Args: []string{"--kubeconfig=" + c.plane.Kubeconfig(), "--feature-gates=ClusterTopology=true",
			"--health-addr=" + health, "--diagnostics-address=0", "--webhook-port=" + port,
			"--webhook-cert-dir=" + certificates},
	})
	c.apply(t, marshal(t, admission(t, filepath.Join(api, "core", "config", "webhook", "manifests.yaml"),
		"https://"+webhooks, authority)))
	return c
}

// pinned is the folder of a module in the version that the module in folder requires.
func pinned(t *testing.T, folder, module string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = folder
	out, err := cmd.Output()
	var downloaded struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &downloaded); jsonErr != nil || err != nil {
		t.Fatalf("go mod download %s: %v, %v, %s", module, err, jsonErr, downloaded.Error)
	}
	return downloaded.Dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// definitions reads the definitions of a kustomization, with its labels: by them Cluster API finds
// the version of a kind that a contract has.
func definitions(t *testing.T, folder string) []object {
	t.Helper()
	var kustomization struct {
		CommonLabels object                   `json:"commonLabels"`
		Labels       []struct{ Pairs object } `json:"labels"`
		Resources    []string                 `json:"resources"`
	}
	if err := yaml.Unmarshal(read(t, filepath.Join(folder, "kustomization.yaml")), &kustomization); err != nil {
		t.Fatal(err)
	}
	labels := []object{kustomization.CommonLabels}
	for _, each := range kustomization.Labels {
		labels = append(labels, each.Pairs)
	}
	var all []object
	for _, file := range kustomization.Resources {
		for _, definition := range documents(t, string(read(t, filepath.Join(folder, file)))) {
			all = append(all, labelled(definition, labels))
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no definition", folder)
	}
	return all
}

func labelled(definition object, labels []object) object {
	own, is := field(definition, "metadata", "labels").(object)
	if !is {
		own = object{}
		definition["metadata"].(object)["labels"] = own
	}
	for _, pairs := range labels {
		maps.Copy(own, pairs)
	}
	return definition
}

// admission reads configurations of webhooks. No Service leads anywhere here, so they get an
// address.
func admission(t *testing.T, file, url string, authority []byte) []object {
	t.Helper()
	configurations := documents(t, string(read(t, file)))
	count := 0
	for _, configuration := range configurations {
		for _, each := range configuration["webhooks"].([]any) {
			webhook := each.(object)
			path := field(webhook, "clientConfig", "service", "path").(string)
			webhook["clientConfig"] = object{"url": url + path, "caBundle": authority}
			count++
		}
	}
	if count == 0 {
		t.Fatalf("%s has no webhook", file)
	}
	return configurations
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
