package helm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/extender/minors"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// clusterAPIDefinitions are the folders of definitions that a class needs, by module and version.
func clusterAPIDefinitions() map[[2]string][]string {
	return map[[2]string][]string{
		{"sigs.k8s.io/cluster-api", "v1.14.2"}: {"core/config/crd/bases", "controlplane/kubeadm/config/crd/bases",
			"bootstrap/kubeadm/config/crd/bases"},
		{"sigs.k8s.io/cluster-api-provider-aws/v2", "v2.13.0"}:                      {"config/crd/bases"},
		{"github.com/SovereignCloudStack/cluster-stack-operator", "v0.1.0-alpha.5"}: {"config/crd/bases"},
	}
}

// TestClusterStacksAreAccepted makes the release of each stack of the project and applies what
// `stratos stack` prints of it to the API server, strictly and in order: class, ClusterStack and
// Cluster, addons, AWSNodeClass and NodePool.
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
	run := stackCommand(t)
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
		to := strings.TrimSpace(string(run(t, "create", "--output", filepath.Join(t.TempDir(), "releases"), folder)))
		t.Run(filepath.Base(to), func(t *testing.T) {
			r := projectRelease{c, run, s, to}
			r.classIsAccepted(t)
			cluster := r.clusterIsAccepted(t)
			// The chart of Stratos has a scheduler's configuration for these alone.
			minor, err := format.MinorOf(s.Config.Config.KubernetesVersion)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(minors.Supported(), minor.Dotted()) {
				addons++
				r.addonsAreAccepted(t, cluster)
				r.poolIsAccepted(t, cluster)
			}
		})
	}
	if addons == 0 {
		t.Error("the addons of no stack were applied")
	}
}

// stackCommand runs `stratos stack` of this checkout, with Helm 3 of this module as the helm on
// PATH.
func stackCommand(t *testing.T) func(t *testing.T, words ...string) []byte {
	t.Helper()
	bin := t.TempDir()
	found, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "helm.sh/helm/v3/cmd/helm").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.TrimSpace(string(found)), filepath.Join(bin, "helm")); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", bin,
		"./cmd/stratos")
	build.Dir = tree.path(".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func(t *testing.T, words ...string) []byte {
		t.Helper()
		words = append([]string{"stack"}, words...)
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "stratos"), words...).Output()
		if err != nil {
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				err = fmt.Errorf("%w: %s", err, failed.Stderr)
			}
			t.Fatalf("stratos %q: %v", words, err)
		}
		return out
	}
}

// projectRelease is a release of the project's stacks, in a folder, and the API server that takes
// its objects.
type projectRelease struct {
	*cluster
	run    func(t *testing.T, words ...string) []byte
	stack  *source.Stack
	folder string
}

func (r *projectRelease) base() string {
	tag, _, _ := strings.Cut(filepath.Base(r.folder), "-v")
	return tag
}

func (r *projectRelease) objects(t *testing.T, words ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Output{Manifest: string(r.run(t, words...))}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func (r *projectRelease) classIsAccepted(t *testing.T) {
	t.Helper()
	kubernetes := r.stack.Config.Config.KubernetesVersion
	got, names := map[string]any{}, map[string]string{}
	for _, object := range r.objects(t, "render", "class", r.folder) {
		if before := names[object.GetName()]; before != "" {
			t.Errorf("%s and %s have the name %s: the operator knows objects by their names", before, object.GetKind(), object.GetName())
		}
		names[object.GetName()] = object.GetKind()
		object.SetNamespace("default")
		if _, err := r.apply(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		for _, path := range []string{"spec.template.spec.imageLookupFormat",
			"spec.template.spec.instanceMetadataOptions.httpPutResponseHopLimit", "spec.controlPlane.metadata.labels"} {
			value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
			if err != nil {
				t.Fatal(err)
			}
			if found {
				got[strings.TrimPrefix(object.GetName(), r.base()+"-v1-")+" "+path[strings.LastIndex(path, ".")+1:]] = value
			}
		}
	}
	const image = "stratos-node-{{.BaseOS}}-{{.K8sVersion}}-v1-*"
	want := map[string]any{"control-plane imageLookupFormat": image, "worker imageLookupFormat": image,
		"control-plane httpPutResponseHopLimit": float64(2), "worker httpPutResponseHopLimit": float64(1),
		r.base() + "-v1 labels": map[string]any{"node.cluster.x-k8s.io/stratos-node-image": "ubuntu-24.04-" +
			strings.TrimPrefix(kubernetes, "v") + "-v1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// clusterIsAccepted applies the ClusterStack and the Cluster, and returns the file of the latter.
func (r *projectRelease) clusterIsAccepted(t *testing.T) string {
	t.Helper()
	text := r.run(t, "manifests", "cluster", "--name", "one", "--variable", "imageOwner=123456789012",
		"--variable", "region=eu-west-1", r.folder)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	objects := slices.Concat(r.objects(t, "manifests", "clusterstack", r.folder), []*unstructured.Unstructured{{}})
	if err := yaml.UnmarshalStrict(text, &objects[1].Object); err != nil {
		t.Fatal(err)
	}
	r.applyAll(t, objects)
	r.remove(t, objects) // the Cluster of the next stack has the same name
	return file
}

func (r *projectRelease) addonsAreAccepted(t *testing.T, cluster string) {
	t.Helper()
	var images []string
	for _, stage := range r.stack.Stages.AddonStages[format.HookAfterControlPlane] {
		objects := r.objects(t, "render", "addons", "--filename", cluster, "--stage", stage.Name, r.folder)
		for _, object := range objects {
			images = append(images, imagesOf(object)...)
		}
		r.applyAll(t, objects)
		// No webhook answers here.
		r.remove(t, slices.Concat(find(objects, "ValidatingWebhookConfiguration"),
			find(objects, "MutatingWebhookConfiguration")))
	}
	r.nodeImageHas(t, images)
}

// nodeImageHas: node-image/images.txt lists the images of all addons, but for those that kubeadm
// pulls anyway.
func (r *projectRelease) nodeImageHas(t *testing.T, images []string) {
	t.Helper()
	scheduler := "registry.k8s.io/kube-scheduler:" + r.stack.Config.Config.KubernetesVersion
	if !slices.Contains(images, scheduler) {
		t.Errorf("no image %s in %q", scheduler, images)
	}
	slices.Sort(images)
	want := slices.DeleteFunc(slices.Compact(images), func(image string) bool { return image == scheduler })
	var got []string
	for line := range strings.Lines(string(r.stack.Files[format.NodeImageFolder+"/images.txt"].Data)) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.ReplaceAll(strings.TrimSpace(line), "@REGION@", "eu-west-1"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images.txt (-the addons +the file):\n%s", diff)
	}
}

// poolIsAccepted applies AWSNodeClass and NodePool, whose definitions the addons brought.
func (r *projectRelease) poolIsAccepted(t *testing.T, cluster string) {
	t.Helper()
	objects := r.objects(t, "manifests", "pool", "--filename", cluster, "--kubeconfig", r.plane.Kubeconfig())
	if len(objects) != 2 {
		t.Errorf("%d objects", len(objects))
	}
	r.applyAll(t, objects)
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
