package helm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// addonNamespace is where the operator sends each object of an addon.
const addonNamespace = "kube-system"

// clusterAPIDefinitions are the folders of definitions that a class needs, by module and version.
func clusterAPIDefinitions() map[[2]string][]string {
	return map[[2]string][]string{
		{"sigs.k8s.io/cluster-api", "v1.14.2"}: {"core/config/crd/bases", "controlplane/kubeadm/config/crd/bases",
			"bootstrap/kubeadm/config/crd/bases"},
		{"sigs.k8s.io/cluster-api-provider-aws/v2", "v2.13.0"}: {"config/crd/bases"},
	}
}

// TestClusterStacksAreAccepted makes the release of each stack of the project, renders it as the
// operator does, and applies class and addons to the API server, strictly and in order.
func TestClusterStacksAreAccepted(t *testing.T) {
	c := newCluster(t)
	for module, folders := range clusterAPIDefinitions() {
		dir, err := source.GoModDownload(t.Context(), module[0], module[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range folders {
			definitions, err := filepath.Glob(filepath.Join(dir, folder, "*.yaml"))
			if err != nil || len(definitions) == 0 {
				t.Fatalf("%s of %s: %d definitions, error %v", folder, module[0], len(definitions), err)
			}
			for _, file := range definitions {
				c.installDefinition(t, file)
			}
		}
	}
	stacks, err := source.Find(stackstest.CopyWithCharts(t, "../.."))
	if err != nil {
		t.Fatal(err)
	}
	addons := 0
	for _, folder := range stacks {
		s, err := source.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		r, err := release.Create(s, release.Stable, format.Versions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(r.Tag.String(), func(t *testing.T) {
			c.acceptsClass(t, s, r)
			// The chart of Stratos has a scheduler's configuration for these alone.
			if slices.Contains(extender.SupportedMinors(), r.Tag.Minor.Dotted()) {
				addons++
				c.acceptsAddons(t, s, r)
			}
		})
	}
	if addons == 0 {
		t.Error("the addons of no stack were applied")
	}
}

// unpack writes an archive of the release into a new folder.
func unpack(t *testing.T, r *release.Release, archive string) string {
	t.Helper()
	all, err := files.Unpack(r.Files[archive].Data)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "unpacked")
	if err := all.WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func (c *cluster) acceptsClass(t *testing.T, s *source.Stack, r *release.Release) {
	t.Helper()
	base := r.Tag.Base()
	kubernetes := s.Config.Config.KubernetesVersion
	set := Set{Release: base, Namespace: "default", Kubernetes: kubernetes}
	out, err := Helm3.Render(filepath.Join(unpack(t, r, r.ClassArchive()), base+"-"+format.ClassFolder), set)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := out.Objects()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, object := range objects {
		object.SetNamespace("default")
		if _, err := c.apply(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		for _, path := range []string{"spec.template.spec.imageLookupFormat",
			"spec.template.spec.instanceMetadataOptions.httpPutResponseHopLimit", "spec.controlPlane.metadata.labels"} {
			value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
			if err != nil {
				t.Fatal(err)
			}
			if found {
				got[strings.TrimPrefix(object.GetName(), base+"-v1-")+" "+path[strings.LastIndex(path, ".")+1:]] = value
			}
		}
	}
	const image = "stratos-node-{{.BaseOS}}-{{.K8sVersion}}-v1-*"
	want := map[string]any{"control-plane imageLookupFormat": image, "worker imageLookupFormat": image,
		"control-plane httpPutResponseHopLimit": float64(2), "worker httpPutResponseHopLimit": float64(1),
		r.Tag.ClassName() + " labels": map[string]any{"node.cluster.x-k8s.io/stratos-node-image": "ubuntu-24.04-" +
			strings.TrimPrefix(kubernetes, "v") + "-v1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func (c *cluster) acceptsAddons(t *testing.T, s *source.Stack, r *release.Release) {
	t.Helper()
	folder := unpack(t, r, r.AddonArchive())
	var images []string
	for _, stage := range s.Stages.AddonStages[format.HookAfterControlPlane] {
		chart := filepath.Join(folder, stage.Name)
		set := Set{Release: "cluster-addon", Namespace: addonNamespace, Kubernetes: s.Config.Config.KubernetesVersion,
			Values: valuesOfStage(t, chart, s.Config.Config.KubernetesVersion)}
		out, err := Helm3.Render(chart, set)
		if err != nil {
			t.Fatalf("%s: %v", stage.Name, err)
		}
		rendered, err := out.Objects()
		if err != nil {
			t.Fatalf("%s: %v", stage.Name, err)
		}
		objects := append(definitionsBeside(t, chart), rendered...)
		for _, object := range objects {
			if namespace := object.GetNamespace(); namespace != "" && namespace != addonNamespace {
				t.Errorf("%s: %s %s is in the namespace %s", stage.Name, object.GetKind(), object.GetName(), namespace)
			}
			if _, is := object.GetAnnotations()["helm.sh/hook"]; is {
				t.Errorf("%s: %s %s is a hook", stage.Name, object.GetKind(), object.GetName())
			}
			images = append(images, imagesOf(object)...)
		}
		c.applyAll(t, objects)
		// No webhook answers here.
		c.remove(t, slices.Concat(find(objects, "ValidatingWebhookConfiguration"),
			find(objects, "MutatingWebhookConfiguration")))
	}
	for _, want := range []string{"registry.k8s.io/kube-scheduler:" + s.Config.Config.KubernetesVersion,
		"602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.23.2", "quay.io/jetstack/cert-manager-webhook:v1.21.2"} {
		if !slices.Contains(images, want) {
			t.Errorf("no image %s in %q", want, images)
		}
	}
}

// valuesOfStage are those of overwrite.yaml for a Cluster, which has the paths of v1beta1 and
// v1beta2.
func valuesOfStage(t *testing.T, chart, kubernetes string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "overwrite.yaml"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.New(chart).Option("missingkey=error").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cluster := map[string]any{"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"topology": map[string]any{
		"version": kubernetes, "variables": []any{map[string]any{"name": "region", "value": "eu-west-1"}}}}}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{"Cluster": cluster}); err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Values string `json:"values"`
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(out.Bytes(), &whole); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if err := yaml.UnmarshalStrict([]byte(whole.Values), &values); err != nil {
		t.Fatalf("%v in\n%s", err, whole.Values)
	}
	return values
}

// definitionsBeside is what --include-crds adds: each file of the folders crds/.
func definitionsBeside(t *testing.T, chart string) []*unstructured.Unstructured {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(chart, "charts", "*", "crds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Output{Manifest: string(text)}.Objects()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

// imagesOf are the images of the containers of a workload.
func imagesOf(object *unstructured.Unstructured) []string {
	var images []string
	for _, field := range []string{"initContainers", "containers"} {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", field)
		if err != nil {
			return nil
		}
		for _, container := range containers {
			if image, is := container.(map[string]any)["image"].(string); is {
				images = append(images, image)
			}
		}
	}
	return images
}
