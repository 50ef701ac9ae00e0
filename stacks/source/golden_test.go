package source_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// record makes the stack's present state that of its last release, with the versions of the seed's
// example.
func record(t *testing.T, folder, kubernetes string) {
	t.Helper()
	s := stackstest.Open(t, folder)
	content, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	versions := format.Versions{ClusterStack: "v3", Kubernetes: kubernetes,
		Components: format.ComponentVersions{ClusterAddon: "v2", NodeImage: "v1"}}
	text, err := (&format.Hashes{ClusterStack: "x", Versions: &versions, Content: content}).Text()
	if err != nil {
		t.Fatal(err)
	}
	stackstest.Edit(t, folder, format.HashesFile, "{}\n", string(text))
	stackstest.Edit(t, folder, format.MetadataFile, string(s.Files[format.MetadataFile].Data), string(versions.Text()))
}

// edit is a change of a file, from the stack's folder.
type edit struct{ file, old, replacement string }

// TestVersionsOfTheSeed begins with the seed's v3, v2, v1. A change is one byte where that is
// possible.
func TestVersionsOfTheSeed(t *testing.T) {
	const root = "../../../../../"
	image := edit{"node-image/build.sh", "exit 0", "exit 1"}
	for name, c := range map[string]struct {
		edits   []edit
		want    string
		changed string
		only    string // "staged" or "one chart", both where it is ""
	}{
		"nothing":                        {want: "v3 v2 v1"},
		"the node image":                 {edits: []edit{image}, want: "v4 v2 v2", changed: "node-image"},
		"an addon":                       {edits: []edit{{"cluster-addon/sets/templates/set.yaml", "sets", "setz"}}, want: "v4 v3 v1", changed: "cluster-addon/sets", only: "staged"},
		"the addons' chart":              {edits: []edit{{"cluster-addon/templates/set.yaml", "sets", "setz"}}, want: "v4 v3 v1", changed: "cluster-addon", only: "one chart"},
		"an addon's values":              {edits: []edit{{"cluster-addon/cni/overwrite.yaml", "host", "hosts"}}, want: "v4 v3 v1", changed: "cluster-addon/cni", only: "staged"},
		"the addons' values":             {edits: []edit{{"cluster-addon-values.yaml", "host", "hosts"}}, want: "v4 v3 v1", changed: "cluster-addon-values.yaml", only: "one chart"},
		"the class":                      {edits: []edit{{"cluster-class/templates/class.yaml", "annotations", "labels"}}, want: "v4 v2 v1", changed: "cluster-class"},
		"clusteraddon.yaml":              {edits: []edit{{"clusteraddon.yaml", `== "sets"`, `!= "sets"`}}, want: "v4 v3 v1", changed: "clusteraddon.yaml", only: "staged"},
		"a Kubernetes patch":             {edits: []edit{{"csctl.yaml", "v1.27.3", "v1.27.4"}}, want: "v4 v2 v1", changed: "csctl.yaml"},
		"a chart of the tree":            {edits: []edit{{root + "charts/own/values.yaml", "1", "2"}}, want: "v4 v3 v1", changed: "cluster-addon/sets/charts/own", only: "staged"},
		"a chart of the tree, one chart": {edits: []edit{{root + "charts/own/values.yaml", "1", "2"}}, want: "v4 v3 v1", changed: "cluster-addon/charts/own", only: "one chart"},
		"a line of charts.lock":          {edits: []edit{{root + "stacks/charts.lock", "digest: h1:", "digest: h1:x"}}, want: "v4 v3 v1", changed: "cluster-addon/cni/charts/fetched", only: "staged"},
		"a fetched chart that is not here": {edits: []edit{{root + "stacks/charts.lock", "folder: ../dist", "folder: ../other"},
			{"cluster-addon/cni/Chart.yaml", "dist/stack-charts", "other/stack-charts"}},
			want: "v4 v3 v1", changed: "cluster-addon/cni", only: "staged"},
		"two layers": {edits: []edit{image, {"cluster-class/values.yaml", "", "a: 1\n"}}, want: "v4 v2 v2", changed: "cluster-class node-image"},
		"a new file": {edits: []edit{{"node-image/more.sh", "", "exit 0\n"}}, want: "v4 v2 v2", changed: "node-image"},
		"metadata":   {edits: []edit{{"metadata.yaml", "nodeImage: v1", "nodeImage: v7"}}, want: "v3 v2 v1"},
	} {
		for kind, staged := range map[string]bool{"staged": true, "one chart": false} {
			if c.only != "" && c.only != kind {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				folder := stackstest.Write(t, staged)
				record(t, folder, "v1.27.3")
				for _, e := range c.edits {
					stackstest.Edit(t, folder, e.file, e.old, e.replacement)
				}
				s := stackstest.Open(t, folder)
				versions, rows, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if got := short(versions); got != c.want {
					t.Errorf("versions %s, want %s", got, c.want)
				}
				if got := strings.Join(rows[0].Changed, " "); got != c.changed {
					t.Errorf("changed %q, want %q", got, c.changed)
				}
				if want := s.Config.Config.KubernetesVersion; versions.Kubernetes != want {
					t.Errorf("kubernetes %s, want %s", versions.Kubernetes, want)
				}
			})
		}
	}
}

func short(v format.Versions) string {
	return strings.Join([]string{v.ClusterStack, v.Components.ClusterAddon, v.Components.NodeImage}, " ")
}

// TestASecondChangeBumpsNothing: what counts is the difference to the last release.
func TestASecondChangeBumpsNothing(t *testing.T) {
	folder := stackstest.Write(t, true)
	record(t, folder, "v1.27.3")
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	first, _, err := stackstest.Open(t, folder).Next()
	if err != nil {
		t.Fatal(err)
	}
	s := stackstest.Open(t, folder)
	stackstest.Edit(t, folder, format.MetadataFile, string(s.Files[format.MetadataFile].Data), string(first.Text()))
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 1", "exit 2")
	second, _, err := stackstest.Open(t, folder).Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("v4 v2 v2", short(second)); diff != "" || first != second {
		t.Errorf("first %s, second %s", short(first), short(second))
	}
}

// TestBeforeTheFirstRelease: all versions are v1, whatever is there.
func TestBeforeTheFirstRelease(t *testing.T) {
	folder := stackstest.Write(t, true)
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	versions, rows, err := stackstest.Open(t, folder).Next()
	if err != nil || short(versions) != "v1 v1 v1" || len(rows[0].Changed) != 0 {
		t.Errorf("versions %s, rows %v, error %v", short(versions), rows, err)
	}
}
