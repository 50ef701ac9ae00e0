package subcommand

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// runPlugin calls the program as csctl does, and returns what it prints.
func runPlugin(words ...string) (string, error) {
	var out strings.Builder
	cmd := Named("/usr/local/bin/csctl-aws", nil)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"create-node-images"}, words...))
	err := cmd.Execute()
	return out.String(), err
}

// withoutImages is a copy of a release as it is when csctl calls the plugin.
func withoutImages(t *testing.T, release string) (folder string, want []byte) {
	t.Helper()
	all, err := files.Read(release)
	if err != nil {
		t.Fatal(err)
	}
	want = all[format.NodeImagesFile].Data
	delete(all, format.NodeImagesFile)
	folder = filepath.Join(t.TempDir(), filepath.Base(release))
	if err := all.WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	return folder, want
}

// TestThePluginAndCreateWriteTheSame: by both methods, and in the build every token is replaced.
func TestThePluginAndCreateWriteTheSame(t *testing.T) {
	stackstest.Program(t, "packer", `grep -q '"node-v1"' "${10}/image.json" || exit 4
for word; do case $word in manifest=*) manifest=${word#manifest=};; esac; done
echo '{"builds": [{"artifact_id": "eu-central-1:ami-0123"}]}' > "$manifest"
`)
	for method, config := range map[string]string{
		"get":   "{method: get, bases: [ubuntu-24.04], architectures: [amd64, arm64]}",
		"build": "{method: build, bases: [ubuntu-24.04], architectures: [amd64], regions: [eu-central-1]}",
	} {
		t.Run(method, func(t *testing.T) {
			folder := stackstest.Write(t, true)
			stackstest.ForAWS(t, folder, config)
			out, err := runStack("create", "-o", t.TempDir(), folder)
			if err != nil {
				t.Fatal(err)
			}
			made := strings.TrimSpace(out)
			if out, err := runStack("validate", "--release", made); err != nil {
				t.Errorf("%s, error %v", out, err)
			}
			release, want := withoutImages(t, made)
			if _, err := runPlugin(folder, release, ""); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(release, format.NodeImagesFile))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" || len(want) == 0 {
				t.Error(diff)
			}
			if is := strings.Contains(string(got), "eu-central-1: ami-0123"); is != (method == "build") {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestAFailedBuildLeavesNoRelease: neither of create nor of csctl.
func TestAFailedBuildLeavesNoRelease(t *testing.T) {
	folder, out := stackstest.Write(t, true), t.TempDir()
	stackstest.ForAWS(t, folder, "{method: get, bases: [ubuntu-24.04], architectures: [amd64]}")
	printed, err := runStack("create", "-o", out+"/made", folder)
	if err != nil {
		t.Fatal(err)
	}
	release, _ := withoutImages(t, strings.TrimSpace(printed))
	stackstest.Edit(t, folder, "csctl.yaml", "get,", "build, regions: [eu-central-1],")
	stackstest.Program(t, "packer", "echo refused; exit 1\n")
	const want = "build stratos-node-ubuntu-24.04-1.27.3-v1-amd64 in eu-central-1: packer build: exit status 1"
	printed, err = runPlugin(folder, release)
	if err == nil || !strings.Contains(err.Error(), want) || printed != "refused\n" {
		t.Errorf("printed %q, error %v", printed, err)
	}
	if _, err := runStack("create", "-o", out+"/failed", folder); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	for _, left := range []string{release, out + "/failed"} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left: error %v", left, err)
		}
	}
}

// TestPluginNamesWhatIsWrong: and removes nothing that is no release.
func TestPluginNamesWhatIsWrong(t *testing.T) {
	folder, other := stackstest.Write(t, true), t.TempDir()
	stackstest.ForAWS(t, folder, "{method: get, bases: [], architectures: [amd64]}")
	stackstest.Edit(t, other, "mine", "", "x")
	for want, words := range map[string][]string{
		`REGISTRY "s3" must be left out`:             {folder, other, "s3"},
		other + "/metadata.yaml: no such file":       {folder, other},
		other + "/csctl.yaml: no such file":          {other, other},
		"accepts between 2 and 3 arg(s), received 1": {folder},
	} {
		if _, err := runPlugin(words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", words, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(other, "mine")); err != nil {
		t.Error(err)
	}
	const want = "csctl.yaml: config.provider.config.bases must have at least one"
	if _, err := runStack("create", "-o", other+"/out", folder); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("create: error %v", err)
	}
	if _, err := runStack("validate", folder); err == nil || !strings.Contains(err.Error(), folder+"/"+want) {
		t.Errorf("validate: error %v", err)
	}
}

// TestReleasesWithNodeImages: a release is refused whose images are of another version, and diff
// names the list.
func TestReleasesWithNodeImages(t *testing.T) {
	folder, out := stackstest.Write(t, true), t.TempDir()
	stackstest.ForAWS(t, folder, "{method: get, bases: [ubuntu-24.04], architectures: [amd64]}")
	if _, err := runStack("create", "-o", out, folder); err != nil {
		t.Fatal(err)
	}
	first := out + "/aws-ferrol-1-27-v1"
	second, images := withoutImages(t, first)
	stackstest.Edit(t, second, format.NodeImagesFile, "", strings.Replace(string(images), "self", "'123456789012'", 1))
	printed, err := runStack("diff", first, second)
	if err != nil || !strings.Contains(printed, "Objects:\n  node-image: node-images.yaml\n") ||
		!strings.Contains(printed, "all machines stay") {
		t.Errorf("printed %s, error %v", printed, err)
	}
	stackstest.Edit(t, second, format.NodeImagesFile, "nodeImageVersion: v1", "nodeImageVersion: v2")
	if _, err := runStack("validate", "--release", second); err == nil || !strings.Contains(err.Error(),
		second+`/node-images.yaml: awsNodeImages[0].nodeImageVersion "v2" must be v1`) {
		t.Errorf("error %v", err)
	}
}
