package subcommand

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// runStack runs stratos stack and returns what it prints.
func runStack(words ...string) (string, error) {
	var out bytes.Buffer
	cmd := stack()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(words)
	err := cmd.Execute()
	return out.String(), err
}

// recordRelease makes the present state that of the release v3, v2, v1.
func recordRelease(t *testing.T, folder string) {
	t.Helper()
	s := stackstest.Open(t, folder)
	content, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	versions := format.Versions{ClusterStack: "v3", Kubernetes: "v1.27.3",
		Components: format.ComponentVersions{ClusterAddon: "v2", NodeImage: "v1"}}
	text, err := (&format.Hashes{Versions: &versions, Content: content}).Text()
	if err != nil {
		t.Fatal(err)
	}
	stackstest.Edit(t, folder, format.HashesFile, "{}\n", string(text))
	stackstest.Edit(t, folder, format.MetadataFile, string(s.Files[format.MetadataFile].Data), string(versions.Text()))
}

func TestStackBump(t *testing.T) {
	folder := stackstest.Write(t, true)
	recordRelease(t, folder)
	above := strings.TrimSuffix(folder, "/providers/docker/ferrol/1-27")

	if out, err := runStack("bump", "--check", above); err != nil || out != "" {
		t.Errorf("check after a release: %q, error %v", out, err)
	}
	if _, err := runStack("bump", folder); ExitCode(err) != 3 {
		t.Errorf("after a release: error %v", err)
	}
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	_, err := runStack("bump", "--check", above)
	for _, want := range []string{"nodeImage v2 instead of v1 (changed: node-image)", "clusterStack v4 instead of v3",
		"run stratos stack bump --write " + folder} {
		if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("check of a changed node image: error %v lacks %q", err, want)
		}
	}
	out, err := runStack("bump", "--write", folder)
	if err != nil {
		t.Fatal(err)
	}
	want := folder + `
COMPONENT     VERSION  REQUIRED  CHANGED
clusterStack  v3       v4        node-image
kubernetes    v1.27.3  v1.27.3   -
clusterAddon  v2       v2        -
nodeImage     v1       v2        node-image
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	metadata, err := os.ReadFile(filepath.Join(folder, format.MetadataFile))
	if err != nil || !strings.Contains(string(metadata), "nodeImage: v2") {
		t.Errorf("metadata.yaml: error %v\n%s", err, metadata)
	}
	if _, err := runStack("bump", "--write", folder); ExitCode(err) != 3 {
		t.Errorf("a second time: error %v", err)
	}
	if _, err := runStack("bump", "--write", "--check", folder); err == nil {
		t.Error("--write and --check at once are accepted")
	}
	if _, err := runStack("bump", folder+"x"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no folder: error %v", err)
	}
}

func TestStackValidate(t *testing.T) {
	folder := stackstest.Write(t, true)
	if out, err := runStack("validate", folder); err != nil || out != folder+": valid\n" {
		t.Errorf("printed %q, error %v", out, err)
	}
	stackstest.Edit(t, folder, "node-images/build.sh", "", "x\n")
	if out, err := runStack("validate", folder); err == nil || out != "" ||
		!strings.Contains(err.Error(), folder+"/node-images: must be node-image") {
		t.Errorf("printed %q, error %v", out, err)
	}
}
