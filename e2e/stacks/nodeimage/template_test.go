package nodeimage

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packer runs Debian's Packer without network and without credentials.
func packer(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("NOT RUN: only root can take the network from Packer")
	}
	cmd := exec.Command("unshare", append([]string{"--net", tool(t, "packer")}, args...)...)
	cmd.Dir = "../../.."
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "CHECKPOINT_DISABLE=1"}
	cmd.Stdin = strings.NewReader(input)
	return run(cmd)
}

// TestTemplateIsValid for each base and architecture, and names the image as the class looks it up.
func TestTemplateIsValid(t *testing.T) {
	for _, i := range images(t) {
		for base := range distributions() {
			for _, of := range []string{"amd64", "arm64"} {
				t.Run(i.name+"/"+base+"/"+of, func(t *testing.T) {
					variables := []string{"-var", "region=eu-central-1", "-var", "node_image_version=v7", "-var", "base=" + base,
						"-var", "architecture=" + of}
					if _, err := packer(t, "", slices.Concat([]string{"validate"}, variables, []string{i.folder})...); err != nil {
						t.Error(err)
					}
					name, err := packer(t, "local.name\n", slices.Concat([]string{"console"}, variables, []string{i.folder})...)
					if err != nil {
						t.Fatal(err)
					}
					want := "stratos-node-" + base + "-" + strings.TrimPrefix(i.kubernetes, "v") + "-v7-" + of
					if strings.TrimSpace(name) != want {
						t.Errorf("the image has the name %s, want %s", name, want)
					}
				})
			}
		}
	}
}

// TestTemplateRefuses has a row for each value that is checked.
func TestTemplateRefuses(t *testing.T) {
	for name, c := range map[string]struct{ variable, want string }{
		"a base":               {"base=fedora", "Variable base must be ubuntu-24.04 or debian-12."},
		"an architecture":      {"architecture=x86_64", "Variable architecture must be amd64 or arm64."},
		"a region":             {"region=eu", "Variable region must be an AWS region"},
		"a node image version": {"node_image_version=7", "Variable node_image_version must be a version such as v1"},
		"a token":              {"instance_type=m6i.large", "Variable node_image_version must be a version such as v1"},
		"a mirror":             {"mirror=http://mirror.example.com", "Variable mirror must begin with https://"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"validate", "-var", "region=eu-central-1", "-var", c.variable}
			if name != "a token" && name != "a node image version" {
				args = append(args, "-var", "node_image_version=v1")
			}
			for _, i := range images(t) {
				_, err := packer(t, "", append(args, i.folder)...)
				if err == nil || !strings.Contains(strings.Join(strings.Fields(err.Error()), " "), c.want) {
					t.Errorf("%s: error %v, want %q", i.name, err, c.want)
				}
			}
		})
	}
}

var packerLine = regexp.MustCompile(`(?m)^packer (validate|build) (.*)$`)

// TestCommandsOfThePage: Packer takes the page's commands, of which none builds here.
func TestCommandsOfThePage(t *testing.T) {
	lines := packerLine.FindAllStringSubmatch(readFile(t, "../../../docs/cluster-stacks.md"), -1)
	if len(lines) < 2 {
		t.Fatalf("the page has %d commands", len(lines))
	}
	for _, line := range lines {
		if _, err := packer(t, "", append([]string{"validate"}, strings.Fields(line[2])...)...); err != nil {
			t.Error(err)
		}
	}
}

func TestShellCheck(t *testing.T) {
	for _, i := range images(t) {
		scripts, err := filepath.Glob(filepath.Join(i.folder, "*.sh"))
		if err != nil || len(scripts) < 3 {
			t.Fatalf("scripts %q, error %v", scripts, err)
		}
		if _, err := run(exec.Command(tool(t, "shellcheck"), scripts...)); err != nil {
			t.Error(err)
		}
	}
}
