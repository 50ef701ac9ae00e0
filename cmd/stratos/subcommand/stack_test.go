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
	versions := format.Versions{ClusterStack: "v3", Kubernetes: s.Config.Config.KubernetesVersion,
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

// TestStackRelease plays an author: create and record, change, bump, create, publish, list, diff.
func TestStackRelease(t *testing.T) {
	t.Setenv("OCI_REGISTRY", "")
	folder, out := stackstest.Write(t, true), t.TempDir()
	created, published := filepath.Join(out, "release"), filepath.Join(out, "published")
	const first, second = "docker-ferrol-1-27-v1", "docker-ferrol-1-27-v2"
	run := func(want string, words ...string) {
		t.Helper()
		printed, err := runStack(words...)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if diff := cmp.Diff(want, printed); diff != "" {
			t.Errorf("%q: %s", words, diff)
		}
	}
	refused := func(want string, words ...string) {
		t.Helper()
		if _, err := runStack(words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", words, err, want)
		}
	}
	run(out+"/packed\n", "pack", "-o", out+"/packed", folder)
	refused("is not empty", "pack", "-o", out+"/packed", folder)
	refused("--record needs --mode stable", "create", "-m", "hash", "--record", folder)
	run(created+"/"+first+"\n", "create", "-o", created, folder)
	run(created+"/"+first+"\n", "create", "-o", created, "--record", folder)
	refused("nothing has changed since the release v1", "create", "-o", created, folder)
	run(created+"/"+first+": valid\n", "validate", "--release", created+"/"+first)
	run(published+"/"+first+"\n", "publish", "--to", published, created+"/"+first)
	run(published+"/"+first+"\n", "publish", "--to", published, created+"/"+first)

	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	if _, err := runStack("bump", "--write", folder); err != nil {
		t.Fatal(err)
	}
	run(created+"/"+second+"\n", "create", "-o", created, folder)
	run(published+"/"+second+"\n", "publish", "--to", published, created+"/"+second)
	run(`TAG                    KUBERNETES  STACK  ADDON  NODE IMAGE  CLUSTERCLASS
docker-ferrol-1-27-v1  v1.27.3     v1     v1     v1          docker-ferrol-1-27-v1
docker-ferrol-1-27-v2  v1.27.3     v2     v1     v2          docker-ferrol-1-27-v2
`, "list", "--from", published)
	run(`Layers:
  clusterStack v1 -> v2
  nodeImage v1 -> v2
Objects:
  cluster-class: ClusterClass {{ .Release.Name }}-{{ .Chart.Version }} in templates/class.yaml
Machines are replaced because of:
  nodeImage v1 -> v2
  ClusterClass {{ .Release.Name }}-{{ .Chart.Version }} in templates/class.yaml
`, "diff", created+"/"+first, created+"/"+second)

	stackstest.Edit(t, published+"/"+first, "clusteraddon.yaml", "apply", "delete")
	refused("tag docker-ferrol-1-27-v1 exists in "+published+" with another content of clusteraddon.yaml",
		"publish", "--to", published, created+"/"+first)
	refused("OCI_REGISTRY must be set", "list")
	refused(`--output "yaml" must be table or json`, "list", "-o", "yaml")
	run("[]\n", "list", "--from", out+"/none", "-o", "json")
	stackstest.Edit(t, folder, "csctl.yaml", "    apiVersion", "    config: {method: get}\n    apiVersion")
	refused("config.provider.config must be empty", "create", folder)
}

// TestOneByteFailsTheCheck plays the check of `make verify` on a copy of the project's stacks: one
// byte per layer makes it fail and name the command that repairs it.
func TestOneByteFailsTheCheck(t *testing.T) {
	for name, c := range map[string]struct{ file, old, replacement, want string }{
		"class":         {"stacks/providers/aws/stratos/1-36/cluster-class/values.yaml", "24.04", "24.05", "changed: cluster-class)"},
		"addon":         {"stacks/providers/aws/stratos/1-36/cluster-addon/cni/values.yaml", "aws-node", "aws-nodf", "changed: cluster-addon/cni)"},
		"stages":        {"stacks/providers/aws/stratos/1-36/clusteraddon.yaml", "# The next", "# the next", "changed: clusteraddon.yaml)"},
		"Kubernetes":    {"stacks/providers/aws/stratos/1-36/csctl.yaml", "v1.36.3", "v1.36.4", "kubernetes v1.36.4 instead of v1.36.3"},
		"own chart":     {"charts/stratos/values.yaml", "replicaCount: 2", "replicaCount: 3", "changed: cluster-addon/stratos/charts/stratos)"},
		"fetched chart": {"stacks/charts.lock", "digest: h1:r", "digest: h1:s", "changed: cluster-addon/cni/charts/aws-vpc-cni)"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, folder := range []string{"stacks", "charts/stratos"} {
				if err := os.CopyFS(filepath.Join(root, folder), os.DirFS("../../../"+folder)); err != nil {
					t.Fatal(err)
				}
			}
			stack := filepath.Join(root, "stacks", "providers", "aws", "stratos", "1-36")
			if _, err := runStack("bump", "--check", filepath.Join(root, "stacks")); err != nil {
				t.Fatalf("before the first release: %v", err)
			}
			recordRelease(t, stack)
			if _, err := runStack("bump", "--check", stack); err != nil {
				t.Fatalf("after it: %v", err)
			}
			stackstest.Edit(t, root, c.file, c.old, c.replacement)
			_, err := runStack("bump", "--check", stack)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasSuffix(err.Error(), "run stratos stack bump --write "+stack) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
