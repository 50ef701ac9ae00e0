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

// manager is one of Cluster API's own managers, with the addresses of its probes and webhooks.
type manager struct{ name, folder, health, webhooks string }

// newManagementCluster starts a control plane with the definitions of Cluster API and its AWS
// provider, and Cluster API's managers with their webhooks. The AWS provider does not run, so no
// control plane comes up.
func newManagementCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, "default")
	certificates := t.TempDir()
	if err := c.plane.WriteServingCertificate(certificates, "cluster-api"); err != nil {
		t.Fatal(err)
	}
	authority := read(t, filepath.Join(certificates, "ca.crt"))
	api := pinned(t, "../capi", clusterAPI)
	managers := []manager{{name: "core", folder: "core"}, {name: "kubeadm-bootstrap", folder: "bootstrap/kubeadm"},
		{name: "kubeadm-control-plane", folder: "controlplane/kubeadm"}}
	for i := range managers {
		m := &managers[i]
		m.health, m.webhooks = freeAddress(t), freeAddress(t)
		own := definitions(t, filepath.Join(api, m.folder, "config", "crd"))
		for _, definition := range own {
			definition["spec"].(object)["conversion"] = object{"strategy": "Webhook", "webhook": object{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             object{"url": "https://" + m.webhooks + "/convert", "caBundle": authority},
			}}
		}
		c.define(t, own)
	}
	aws, err := source.GoModDownload(t.Context(), awsProvider, awsProviderVersion)
	if err != nil {
		t.Fatal(err)
	}
	c.define(t, definitions(t, filepath.Join(aws, "config", "crd")))
	for _, m := range managers {
		c.startManager(t, m, certificates)
		c.apply(t, marshal(t, admission(t, m, filepath.Join(api, m.folder, "config", "webhook"), authority)))
	}
	return c
}

func (c *cluster) startManager(t *testing.T, m manager, certificates string) {
	t.Helper()
	_, port, err := net.SplitHostPort(m.webhooks)
	if err != nil {
		t.Fatal(err)
	}
	c.start(t, controlplane.Companion{
		Name: m.name, Path: build(t, "../capi", clusterAPI+"/"+m.folder, m.name),
		URL: "http://" + m.health, ReadyPath: "/readyz",
		Args: []string{"--kubeconfig=" + c.plane.Kubeconfig(), "--feature-gates=ClusterTopology=true",
			"--health-addr=" + m.health, "--diagnostics-address=0", "--webhook-port=" + port,
			"--webhook-cert-dir=" + certificates},
	})
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

// admission reads the configurations of a manager's webhooks. No Service leads anywhere here, so
// each gets an address. Each manager gives its configurations the same names.
func admission(t *testing.T, m manager, folder string, authority []byte) []object {
	t.Helper()
	configurations := documents(t, string(read(t, filepath.Join(folder, "manifests.yaml"))))
	count := 0
	for _, configuration := range configurations {
		metadata := configuration["metadata"].(object)
		metadata["name"] = m.name + "-" + metadata["name"].(string)
		for _, each := range configuration["webhooks"].([]any) {
			webhook := each.(object)
			path := field(webhook, "clientConfig", "service", "path").(string)
			webhook["clientConfig"] = object{"url": "https://" + m.webhooks + path, "caBundle": authority}
			count++
		}
	}
	if count == 0 {
		t.Fatalf("%s has no webhook", folder)
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
