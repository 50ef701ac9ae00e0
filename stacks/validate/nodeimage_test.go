package validate

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
)

const programsFile, imagesFile, templateFile = "programs.txt", "images.txt", "node-image.pkr.hcl"

// program is a line of programs.txt. The checksum is "-" where it is not known.
type program struct{ name, version, architecture, checksum, address string }

func programsOf(t *testing.T, text string) []program {
	t.Helper()
	var all []program
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(words) != 5 {
			t.Fatalf("%s: %q has %d words", programsFile, line, len(words))
		}
		all = append(all, program{words[0], words[1], words[2], words[3], words[4]})
	}
	return all
}

// TestProgramsOfTheNodeImages: each program is there once for each architecture, in one version,
// from an address of that version. Those of Kubernetes have the stack's version.
func TestProgramsOfTheNodeImages(t *testing.T) {
	checksum := regexp.MustCompile(`^([0-9a-f]{64}|-)$`)
	for _, s := range projectStacks(t) {
		kubernetes := s.Config.Config.KubernetesVersion
		image := s.Files.Below(format.NodeImageFolder)
		got := map[string][]string{}
		checksums, versions := map[string]string{}, map[string]string{}
		for _, p := range programsOf(t, string(image[programsFile].Data)) {
			where := fmt.Sprintf("%s: %s of %s for %s", s.Folder, programsFile, p.name, p.architecture)
			got[p.name] = append(got[p.name], p.architecture)
			if known, is := versions[p.name]; is && known != p.version {
				t.Errorf("%s: version %s, and %s for the other architecture", where, p.version, known)
			}
			versions[p.name] = p.version
			if !checksum.MatchString(p.checksum) {
				t.Errorf("%s: the checksum %q is no SHA-256", where, p.checksum)
			}
			if other := checksums[p.checksum]; other != "" && p.checksum != "-" {
				t.Errorf("%s: the checksum is that of %s", where, other)
			}
			checksums[p.checksum] = where
			if !strings.HasPrefix(p.address, "https://") || !strings.Contains(p.address, strings.TrimPrefix(p.version, "v")) {
				t.Errorf("%s: the address %s is not of version %s", where, p.address, p.version)
			}
		}
		both := []string{"amd64", "arm64"}
		want := map[string][]string{"containerd": both, "runc": both, "cni-plugins": both, "kubelet": both, "kubeadm": both,
			"ecr-credential-provider": both, "aws-cli": both}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", s.Folder, programsFile, diff)
		}
		for _, name := range []string{"kubelet", "kubeadm"} {
			if versions[name] != kubernetes {
				t.Errorf("%s: %s has version %s of %s, want %s", s.Folder, programsFile, versions[name], name, kubernetes)
			}
		}
		line := `kubernetes = "` + strings.TrimPrefix(kubernetes, "v") + `"`
		if !strings.Contains(string(image[templateFile].Data), line) {
			t.Errorf("%s: %s has no line %s", s.Folder, templateFile, line)
		}
	}
}

// TestNodeImagesDifferInVersionsOnly compares each stack's folder with that of the first.
func TestNodeImagesDifferInVersionsOnly(t *testing.T) {
	stacks := projectStacks(t)
	first := withoutVersions(t, stacks[0])
	if len(first) < 10 {
		t.Fatalf("%s has %d files of a node image", stacks[0].Folder, len(first))
	}
	for _, s := range stacks[1:] {
		if diff := cmp.Diff(first, withoutVersions(t, s)); diff != "" {
			t.Errorf("node images (-%s +%s):\n%s", stacks[0].Folder, s.Folder, diff)
		}
	}
}

func withoutVersions(t *testing.T, s *source.Stack) map[string]string {
	t.Helper()
	kubernetes := strings.TrimPrefix(s.Config.Config.KubernetesVersion, "v")
	tags := regexp.MustCompile(`(?m):[^:/]+$`)
	all := map[string]string{}
	for name, file := range s.Files.Below(format.NodeImageFolder) {
		text := strings.ReplaceAll(string(file.Data), kubernetes, "KUBERNETES")
		switch name {
		case programsFile:
			for _, p := range programsOf(t, text) {
				if strings.HasSuffix(p.version, "KUBERNETES") {
					text = strings.ReplaceAll(text, p.checksum+" "+p.address, "CHECKSUM "+p.address)
				}
			}
		case imagesFile:
			text = tags.ReplaceAllString(text, "")
		}
		all[fmt.Sprintf("%s %t", name, file.Executable)] = text
	}
	return all
}

func projectStacks(t *testing.T) []*source.Stack {
	t.Helper()
	folders, err := source.Find("..")
	if err != nil || len(folders) < 2 {
		t.Fatalf("stacks %q, error %v", folders, err)
	}
	var stacks []*source.Stack
	for _, folder := range folders {
		s, err := source.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		stacks = append(stacks, s)
	}
	return stacks
}
