package release

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/dirhash"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

func create(t *testing.T, folder string, mode Mode) *Release {
	t.Helper()
	r, err := Create(stackstest.Open(t, folder), mode, format.Versions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func unpacked(t *testing.T, r *Release, archive string) files.Files {
	t.Helper()
	found, err := files.Unpack(r.Files[archive].Data)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCreateStable: names, versions and contents in both conventions.
func TestCreateStable(t *testing.T) {
	const class = "docker-ferrol-1-27-cluster-class-v1.tgz"
	const addon = "docker-ferrol-1-27-cluster-addon-v1.tgz"
	for convention, c := range map[string]struct {
		staged       bool
		files, addon []string
	}{
		"staged": {staged: true, files: []string{"clusteraddon.yaml", addon, class, "hashes.json", "metadata.yaml"},
			addon: []string{"cni/Chart.yaml", "cni/charts/fetched/Chart.yaml", "cni/charts/fetched/templates/set.yaml",
				"cni/overwrite.yaml",
				"sets/Chart.yaml", "sets/charts/own/Chart.yaml", "sets/charts/own/templates/set.yaml", "sets/charts/own/values.yaml",
				"sets/templates/set.yaml"}},
		"one chart": {files: []string{"cluster-addon-values.yaml", addon, class, "hashes.json", "metadata.yaml"},
			addon: []string{"Chart.yaml", "charts/fetched/Chart.yaml", "charts/fetched/templates/set.yaml",
				"charts/own/Chart.yaml",
				"charts/own/templates/set.yaml", "charts/own/values.yaml", "templates/set.yaml", "values.yaml"}},
	} {
		t.Run(convention, func(t *testing.T) {
			r := create(t, stackstest.Write(t, c.staged), Stable)
			if r.Tag.String() != "docker-ferrol-1-27-v1" {
				t.Errorf("tag %s", r.Tag)
			}
			if diff := cmp.Diff(c.files, r.Files.Names()); diff != "" {
				t.Error(diff)
			}
			inAddon := unpacked(t, r, addon)
			chart := "cni/Chart.yaml"
			if !c.staged {
				inAddon, chart = inAddon.Below("docker-ferrol-1-27-cluster-addon"), "Chart.yaml"
			}
			if diff := cmp.Diff(c.addon, inAddon.Names()); diff != "" {
				t.Error(diff)
			}
			inClass := unpacked(t, r, class).Below("docker-ferrol-1-27-cluster-class")
			if text := string(inClass["templates/class.yaml"].Data); !strings.Contains(text, "image: node-v1\n") {
				t.Errorf("the token stands in the class:\n%s", text)
			}
			for name, text := range map[string][]byte{"class": inClass["Chart.yaml"].Data, "addon": inAddon[chart].Data} {
				var metadata chartMetadata
				if err := yaml.Unmarshal(text, &metadata); err != nil || metadata.Version != "v1" {
					t.Errorf("%s: version %q, error %v", name, metadata.Version, err)
				}
			}
			if problems := Check(r.Tag.String(), r.Files); len(problems) != 0 {
				t.Errorf("its own release: %v", problems)
			}
		})
	}
}

// TestHashesAreCsctls: csctl's keys are its hashes of the packed folder on disk.
func TestHashesAreCsctls(t *testing.T) {
	for _, staged := range []bool{true, false} {
		s := stackstest.Open(t, stackstest.Write(t, staged))
		packed, err := s.Pack()
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(t.TempDir(), "packed")
		if err := packed.WriteNew(folder); err != nil {
			t.Fatal(err)
		}
		r := create(t, s.Folder, Hash)
		for name, got := range map[string]string{"": r.Hashes.ClusterStack, "cluster-addon": r.Hashes.ClusterAddonDir,
			"node-image": r.Hashes.NodeImageDir} {
			hash, err := dirhash.HashDir(filepath.Join(folder, name), "", dirhash.Hash1)
			if err != nil {
				t.Fatal(err)
			}
			if want := clean(hash); got != want || strings.ContainsAny(want, ":/=+") {
				t.Errorf("%q: %s, want %s", name, got, want)
			}
		}
		if (r.Hashes.ClusterAddonValues == "") != staged {
			t.Errorf("hash of the values: %q", r.Hashes.ClusterAddonValues)
		}
		if want := "docker-ferrol-1-27-v0-sha-" + r.Hashes.ClusterStack[:7]; r.Tag.String() != want {
			t.Errorf("tag %s, want %s", r.Tag, want)
		}
	}
}

// TestTheSameBytes: from two folders with other times, whatever order they were written in.
func TestTheSameBytes(t *testing.T) {
	first, second := create(t, stackstest.Write(t, true), Stable), create(t, stackstest.Write(t, true), Stable)
	for _, name := range first.Files.Names() {
		if !bytes.Equal(first.Files[name].Data, second.Files[name].Data) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestCreateCustom(t *testing.T) {
	s := stackstest.Open(t, stackstest.Write(t, true))
	custom := format.Versions{ClusterStack: "v0-custom.pr123",
		Components: format.ComponentVersions{ClusterAddon: "v2", NodeImage: "v1"}}
	r, err := Create(s, Custom, custom)
	if err != nil || r.Tag.String() != "docker-ferrol-1-27-v0-custom-pr123" ||
		!slices.Contains(r.Files.Names(), "docker-ferrol-1-27-cluster-addon-v2.tgz") {
		t.Fatalf("tag %s, error %v", r.Tag, err)
	}
	for want, mode := range map[string]Mode{"versions.clusterStack": Custom, `mode "beta" must be stable, hash or custom`: "beta"} {
		if _, err := Create(s, mode, format.Versions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %s: error %v", mode, err)
		}
	}
}

// TestCreateAfterARelease: stable mode refuses what would be the same release, or one under a
// version that is not written.
func TestCreateAfterARelease(t *testing.T) {
	folder := stackstest.Write(t, true)
	first := create(t, folder, Stable)
	stackstest.Edit(t, folder, format.HashesFile, "{}\n", string(first.Files[format.HashesFile].Data))
	if _, err := Create(stackstest.Open(t, folder), Stable, format.Versions{}); err == nil ||
		!strings.Contains(err.Error(), "nothing has changed since the release v1") {
		t.Errorf("again: error %v", err)
	}
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	if _, err := Create(stackstest.Open(t, folder), Stable, format.Versions{}); err == nil ||
		!strings.Contains(err.Error(), "run stratos stack bump --write "+folder) {
		t.Errorf("changed: error %v", err)
	}
	stackstest.Edit(t, folder, "metadata.yaml", "clusterStack: v1", "clusterStack: v2")
	stackstest.Edit(t, folder, "metadata.yaml", "nodeImage: v1", "nodeImage: v2")
	second := create(t, folder, Stable)
	if second.Tag.String() != "docker-ferrol-1-27-v2" {
		t.Errorf("tag %s", second.Tag)
	}
	d, err := Compare(first.Files, second.Files)
	if err != nil {
		t.Fatal(err)
	}
	want := &Diff{Layers: []string{"clusterStack v1 -> v2", "nodeImage v1 -> v2"},
		Objects: []string{"cluster-class: ClusterClass {{ .Release.Name }}-{{ .Chart.Version }} in templates/class.yaml"},
		Machines: []string{"nodeImage v1 -> v2",
			"ClusterClass {{ .Release.Name }}-{{ .Chart.Version }} in templates/class.yaml"}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if d, err := Compare(second.Files, second.Files); err != nil || !cmp.Equal(d, &Diff{}) {
		t.Errorf("with itself: %+v, error %v", d, err)
	}
}

func TestCompareAddons(t *testing.T) {
	folder := stackstest.Write(t, true)
	first := create(t, folder, Hash)
	stackstest.Edit(t, folder, "cluster-addon/sets/templates/set.yaml", "", "data: {a: b}\n")
	stackstest.Edit(t, folder, "cluster-addon/cni/overwrite.yaml", "host", "hosts")
	second := create(t, folder, Hash)
	d, err := Compare(first.Files, second.Files)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cluster-addon: ConfigMap sets in sets/templates/set.yaml", "cluster-addon: cni/overwrite.yaml"}
	for _, each := range want {
		if !slices.Contains(d.Objects, each) {
			t.Errorf("no %q in %q", each, d.Objects)
		}
	}
}

// rootOf is the folder in which stacks/ lies.
func rootOf(stack string) string {
	for range 5 {
		stack = filepath.Dir(stack)
	}
	return stack
}

// TestArchivesInCharts: charts that lie as archives in charts/ are unpacked, so that csctl finds no
// token in them by chance and their times are no change.
func TestArchivesInCharts(t *testing.T) {
	folder := stackstest.Write(t, true)
	own, err := files.Read(filepath.Join(rootOf(folder), "charts", "own"))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := own.Archive("own", false)
	if err != nil {
		t.Fatal(err)
	}
	charts := filepath.Join(folder, "cluster-addon", "sets", "charts")
	if err := os.MkdirAll(charts, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(charts, "own-0.1.0.tgz"), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stackstest.Open(t, folder).Pack(); err == nil || !strings.Contains(err.Error(), "sets/charts/own, because repository names a folder") {
		t.Errorf("a chart that is there twice: error %v", err)
	}
	stackstest.Edit(t, folder, "cluster-addon/sets/Chart.yaml", "file://../../../../../../../charts/own",
		"https://example.com/charts")
	packed, err := stackstest.Open(t, folder).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, packed.Below("cluster-addon/sets/charts/own")); diff != "" {
		t.Error(diff)
	}
}

func TestAFetchedChartThatDiffers(t *testing.T) {
	folder := stackstest.Write(t, true)
	stackstest.Edit(t, folder, "../../../../../dist/stack-charts/fetched/templates/set.yaml", "fetched", "another")
	if _, err := stackstest.Open(t, folder).Pack(); err == nil || !strings.Contains(err.Error(), "chart fetched in ") ||
		!strings.Contains(err.Error(), "in charts.lock") {
		t.Errorf("another digest: error %v", err)
	}
	if err := os.RemoveAll(filepath.Join(rootOf(folder), "dist")); err != nil {
		t.Fatal(err)
	}
	if _, err := stackstest.Open(t, folder).Pack(); err == nil ||
		!strings.Contains(err.Error(), "run stratos stack charts") {
		t.Errorf("not fetched: error %v", err)
	}
}

// TestCheck has a row for each thing that the operator would not find.
func TestCheck(t *testing.T) {
	staged, one := create(t, stackstest.Write(t, true), Stable), create(t, stackstest.Write(t, false), Stable)
	class := staged.ClassArchive()
	other, err := packageChart(files.Files{"Chart.yaml": {Data: []byte("name: docker-ferrol-1-26-cluster-class\n")}}, "v1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		release *Release
		tag     string
		change  func(files.Files)
		want    string
	}{
		"another tag":     {release: staged, tag: "docker-ferrol-1-27-v2", want: "versions.clusterStack v1 must be v2"},
		"another minor":   {release: staged, tag: "docker-ferrol-1-28-v1", want: "versions.kubernetes v1.27.3 must be of the minor 1.28"},
		"a foreign tag":   {release: staged, tag: "latest", want: "5 or 7 parts"},
		"no class":        {release: staged, change: func(f files.Files) { delete(f, class) }, want: class + ": is missing"},
		"no addon":        {release: one, change: func(f files.Files) { delete(f, one.AddonArchive()) }, want: one.AddonArchive() + ": is missing"},
		"no staged addon": {release: staged, change: func(f files.Files) { delete(f, one.AddonArchive()) }, want: one.AddonArchive() + ": is missing"},
		"another class":   {release: staged, change: func(f files.Files) { f[class] = files.File{Data: other} }, want: "must have docker-ferrol-1-27-cluster-class/Chart.yaml"},
		"no hashes":       {release: staged, change: func(f files.Files) { f[format.HashesFile] = files.File{Data: []byte("x")} }, want: "hashes.json"},
		"a stage too many": {release: staged, change: func(f files.Files) {
			f[format.StagesFile] = files.File{Data: bytes.ReplaceAll(f[format.StagesFile].Data, []byte("name: cni"),
				[]byte("name: more"))}
		}, want: "must have more/Chart.yaml"},
		"both conventions":  {release: staged, change: func(f files.Files) { f[format.AddonValuesFile] = files.File{} }, want: "clusteraddon.yaml: must be there and"},
		"a file of another": {release: one, change: func(f files.Files) { f["README.md"] = files.File{} }, want: "README.md: only these"},
	} {
		t.Run(name, func(t *testing.T) {
			all := files.Files{}
			all.Put("", c.release.Files)
			if c.change != nil {
				c.change(all)
			}
			tag := c.tag
			if tag == "" {
				tag = c.release.Tag.String()
			}
			for _, problem := range Check(tag, all) {
				if strings.Contains(problem.Error(), c.want) {
					return
				}
			}
			t.Errorf("problems %v, want %q", Check(tag, all), c.want)
		})
	}
}

// TestAPackedFolder: what `pack` writes gives the same archives, wherever it lies.
func TestAPackedFolder(t *testing.T) {
	for _, staged := range []bool{true, false} {
		s := stackstest.Open(t, stackstest.Write(t, staged))
		packed, err := s.Pack()
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(t.TempDir(), "packed")
		if err := packed.WriteNew(folder); err != nil {
			t.Fatal(err)
		}
		want, got := create(t, s.Folder, Stable), create(t, folder, Stable)
		for _, archive := range []string{want.ClassArchive(), want.AddonArchive()} {
			if !bytes.Equal(want.Files[archive].Data, got.Files[archive].Data) {
				t.Errorf("%s differs", archive)
			}
		}
	}
}

// TestOpen: a release's files give the release, its versions too where hashes.json has none.
func TestOpen(t *testing.T) {
	made := create(t, stackstest.Write(t, true), Stable)
	made.Files[format.HashesFile] = files.File{Data: []byte("{\"clusterStack\": \"a\"}")}
	r, err := Open(made.Tag.String(), made.Files)
	if err != nil || r.Tag != made.Tag || *r.Hashes.Versions != *made.Hashes.Versions || r.Hashes.ClusterStack != "a" {
		t.Errorf("release %+v, error %v", r, err)
	}
	if _, err := Open("docker-ferrol-1-27-v2", made.Files); err == nil || !strings.Contains(err.Error(), "versions.clusterStack v1 must be v2") {
		t.Errorf("error %v", err)
	}
}
