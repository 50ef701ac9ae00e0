package management

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

const operatorModule = "github.com/SovereignCloudStack/cluster-stack-operator"

// addonNamespace is where the operator sends each object of an addon.
const addonNamespace = "kube-system"

// umbrella is the version of the releases that have one chart for all addons.
const umbrella = "v0-one.chart"

// TestOperatorAppliesAddons gives the cluster-stack operator the releases of the project. Of those
// with stages it reads class and versions. This version of the operator has no stages, so the same
// charts are packed as one too, and the operator applies that to a second API server.
func TestOperatorAppliesAddons(t *testing.T) {
	c := newManagementCluster(t)
	c.define(t, definitions(t, filepath.Join(pinned(t, "../csctl", operatorModule), "config", "crd")))
	helm := build(t, "../../helm", "helm.sh/helm/v4/cmd/helm", "helm")
	stacks := stackstest.CopyWithCharts(t, "../../..")
	staged, whole := releases(t, stacks), umbrellas(t, stacks)
	published := t.TempDir()
	for _, r := range append(staged, whole...) {
		if err := r.Files.WriteNew(filepath.Join(published, "cluster-stacks", r.Tag.String())); err != nil {
			t.Fatal(err)
		}
	}
	c.startOperator(t, helm, published)
	for _, r := range append(staged, whole...) {
		c.apply(t, marshal(t, []object{stackOf(r)}))
	}
	for _, r := range append(staged, whole...) {
		t.Run("class "+r.Tag.String(), func(t *testing.T) {
			c.waitFor(t, "clusterstackrelease/"+r.Tag.String(), "jsonpath={.status.ready}=true")
			c.waitFor(t, "clusterclass/"+r.Tag.ClassName(), "condition=VariablesReady")
		})
	}
	for _, r := range whole {
		t.Run("addons "+r.Tag.String(), func(t *testing.T) {
			c.appliesAddons(t, r, helm, filepath.Join(published, "cluster-stacks", r.Tag.String()))
		})
	}
}

func (c *cluster) startOperator(t *testing.T, helm, published string) {
	t.Helper()
	health := freeAddress(t)
	c.start(t, controlplane.Companion{
		Name: "operator", Path: build(t, "../csctl", operatorModule+"/cmd", "operator"),
		URL: "http://" + health, ReadyPath: "/readyz",
		// It calls helm by its name.
		Env: []string{"PATH=" + filepath.Dir(helm) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
		Args: []string{"--kubeconfig=" + c.plane.Kubeconfig(), "--local", "--release-dir=" + published,
			"--leader-elect=false", "--health-probe-bind-address=" + health},
	})
}

// stackOf is the ClusterStack that asks for one release.
func stackOf(r *release.Release) object {
	channel := "stable"
	if !r.Tag.Version.IsStable() {
		channel = "custom"
	}
	return object{"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack",
		"metadata": object{"name": strings.ToLower(r.Tag.String()), "namespace": "default"},
		"spec": object{"provider": r.Tag.Provider, "name": r.Tag.Stack, "kubernetesVersion": r.Tag.Minor.Dotted(),
			"channel": channel, "autoSubscribe": false, "noProvider": true, "versions": []any{r.Tag.Version.String()}}}
}

// umbrellas makes a release of each stack with one chart for all addons.
func umbrellas(t *testing.T, stacks string) []*release.Release {
	t.Helper()
	folders, err := source.Find(stacks)
	if err != nil {
		t.Fatal(err)
	}
	var all []*release.Release
	for _, folder := range folders {
		joinStages(t, stackstest.Open(t, folder))
		r, err := release.Create(stackstest.Open(t, folder), release.Custom, format.Versions{ClusterStack: umbrella,
			Components: format.ComponentVersions{ClusterAddon: umbrella, NodeImage: umbrella}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// joinStages makes one chart of the stages of a stack: their dependencies, values and templates of
// values in one file each.
func joinStages(t *testing.T, s *source.Stack) {
	t.Helper()
	addons := filepath.Join(s.Folder, format.AddonFolder)
	tag, err := s.Config.TagOf(format.Version{})
	if err != nil {
		t.Fatal(err)
	}
	chart := object{"apiVersion": "v2", "type": "application", "version": "v0",
		"name": tag.Base() + "-" + format.AddonFolder}
	var dependencies []any
	var values, overwrites strings.Builder
	const head = "values: |\n"
	overwrites.WriteString(head)
	for _, stage := range s.Stages.AddonStages[format.HookAfterControlPlane] {
		var own struct{ Dependencies []object }
		if err := yaml.Unmarshal(read(t, filepath.Join(addons, stage.Name, format.ChartFile)), &own); err != nil {
			t.Fatal(err)
		}
		if len(own.Dependencies) != 1 {
			t.Fatalf("%s has %d dependencies", stage.Name, len(own.Dependencies))
		}
		for _, dependency := range own.Dependencies {
			// The chart lies one folder higher than that of the stage.
			dependency["repository"] = strings.Replace(dependency["repository"].(string), "../", "", 1)
			dependencies = append(dependencies, dependency)
		}
		values.Write(read(t, filepath.Join(addons, stage.Name, "values.yaml")))
		overwrite, err := os.ReadFile(filepath.Join(addons, stage.Name, "overwrite.yaml"))
		if err == nil {
			text, is := strings.CutPrefix(string(overwrite), head)
			if !is {
				t.Fatalf("overwrite.yaml of %s does not begin with %q", stage.Name, head)
			}
			overwrites.WriteString(text)
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(addons, stage.Name)); err != nil {
			t.Fatal(err)
		}
	}
	chart["dependencies"] = dependencies
	text, err := yaml.Marshal(chart)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Folder, format.StagesFile)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{filepath.Join(addons, format.ChartFile): string(text),
		filepath.Join(addons, "values.yaml"):            values.String(),
		filepath.Join(s.Folder, format.AddonValuesFile): overwrites.String()} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// appliesAddons makes a Cluster of the class, gives it an API server, and waits until the operator
// has applied every object of the addons there. It does not look at the addon's own status: the
// operator reports an addon as ready that lacks objects.
func (c *cluster) appliesAddons(t *testing.T, r *release.Release, helm, folder string) {
	t.Helper()
	// No pod runs there, so no webhook answers.
	workload := newCluster(t, addonNamespace,
		"--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook")
	name := "addons-" + r.Tag.Minor.String()
	c.apply(t, marshal(t, []object{clusterOf(r, name, onlyRequired())}))
	c.waitFor(t, "cluster/"+name, "condition=TopologyReconciled")
	kubeconfig, err := workload.plane.UserKubeconfig("operator", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, marshal(t, []object{{"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
		"metadata": object{"name": name + "-kubeconfig", "namespace": "default",
			"labels": object{"cluster.x-k8s.io/cluster-name": name}},
		"data": object{"value": read(t, kubeconfig)}}}))

	rendered := render(t, helm, "cluster-addon", filepath.Join(folder, r.AddonArchive()), addonNamespace,
		valuesFor(t, filepath.Join(folder, format.AddonValuesFile), c.get(t, "clusters.v1beta1.cluster.x-k8s.io", name)))
	var names []string
	for _, each := range documents(t, rendered) { // Helm begins with the definitions
		conditions := []string{}
		if each["kind"] == "CustomResourceDefinition" {
			conditions = append(conditions, "condition=Established")
		}
		names = append(names, nameOf(each))
		workload.waitFor(t, nameOf(each), conditions...)
	}
	// To apply it once more is allowed, strictly, and changes nothing.
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	again := []string{"--server-side", "--force-conflicts", "--field-manager=comparison", "-f", file}
	workload.kubectl(t, nil, append([]string{"apply", "--dry-run=server", "--validate=strict"}, again...)...)
	if differences, complaint := workload.try(t, nil, append([]string{"diff"}, again...)...); complaint != "" {
		t.Errorf("the API server has something else than what was rendered: %s\n%s", complaint, differences)
	}
	found := field(workload.get(t, names...), "items").([]any)
	if len(found) == 0 || len(found) != len(names) {
		t.Errorf("%d objects of %d", len(found), len(names))
	}
	for _, each := range found {
		if field(each, "metadata", "labels", "clusterstack.x-k8s.io/instance") != "owned" {
			t.Errorf("%s is not from the operator", nameOf(each.(object)))
		}
	}
}

// nameOf is how kubectl's command line names an object: kind.version.group/name.
func nameOf(of object) string {
	kind := strings.ToLower(of["kind"].(string))
	if group, version, is := strings.Cut(of["apiVersion"].(string), "/"); is {
		kind += "." + version + "." + group
	}
	return kind + "/" + field(of, "metadata", "name").(string)
}

// valuesFor is what the operator makes of cluster-addon-values.yaml for a Cluster.
func valuesFor(t *testing.T, file string, cluster object) string {
	t.Helper()
	parsed, err := template.New(file).Option("missingkey=error").Parse(string(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, object{"Cluster": cluster}); err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Values string `json:"values"`
	}
	if err := yaml.UnmarshalStrict(out.Bytes(), &whole); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	return whole.Values
}
