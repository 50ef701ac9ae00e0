package helm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
)

// TestNodeImageHasTheImagesOfTheAddons: node-image/images.txt lists the images of all addons, but
// for those that kubeadm pulls anyway.
func TestNodeImageHasTheImagesOfTheAddons(t *testing.T) {
	stacks, err := source.Find(copyWithCharts(t))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, folder := range stacks {
		s, err := source.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		r, err := release.Create(s, release.Stable, format.Versions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(extender.SupportedMinors(), r.Tag.Minor.Dotted()) {
			continue
		}
		compared++
		want := imagesOfAddons(t, s, unpack(t, r, r.AddonArchive()))
		want = slices.DeleteFunc(want, func(image string) bool {
			return image == "registry.k8s.io/kube-scheduler:"+s.Config.Config.KubernetesVersion
		})
		var got []string
		for line := range strings.Lines(string(s.Files[format.NodeImageFolder+"/images.txt"].Data)) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.ReplaceAll(strings.TrimSpace(line), "@REGION@", "eu-west-1"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: images.txt (-the addons +the file):\n%s", folder, diff)
		}
	}
	if compared == 0 {
		t.Error("no stack was compared")
	}
}

// imagesOfAddons are the images of the containers of all stages, in order and each once.
func imagesOfAddons(t *testing.T, s *source.Stack, folder string) []string {
	t.Helper()
	kubernetes := s.Config.Config.KubernetesVersion
	var images []string
	for _, stage := range s.Stages.AddonStages[format.HookAfterControlPlane] {
		chart := filepath.Join(folder, stage.Name)
		out, err := Helm3.Render(chart, Set{Release: "cluster-addon", Namespace: addonNamespace, Kubernetes: kubernetes,
			Values: valuesOfStage(t, chart, kubernetes)})
		if err != nil {
			t.Fatalf("%s: %v", stage.Name, err)
		}
		objects, err := out.Objects()
		if err != nil {
			t.Fatalf("%s: %v", stage.Name, err)
		}
		for _, object := range objects {
			images = append(images, imagesOf(object)...)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}
