// Package oracle compares `stratos stack` with csctl, which it builds.
package oracle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/e2e/stacks/registry"
	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/stackstest"
	"github.com/stratos-sh/stratos/stacks/store"
)

var shared *registry.Server //nolint:gochecknoglobals // made in TestMain, before Go reads SSL_CERT_FILE

func TestMain(m *testing.M) {
	os.Exit(registry.Main(m, &shared))
}

// csctl runs csctl create in a new folder, on the stack as `pack` gives it, and returns the
// releases that it makes there.
func csctl(t *testing.T, env map[string]string, folder string, args ...string) store.Folder {
	t.Helper()
	work := t.TempDir()
	find := exec.Command("go", "tool", "-n", "github.com/SovereignCloudStack/csctl")
	find.Dir = "../csctl"
	program, err := find.Output()
	if err != nil {
		t.Fatalf("build csctl: %v", err)
	}
	packed, err := stackstest.Open(t, folder).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if err := packed.WriteNew(filepath.Join(work, "packed")); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"create", "-o", "releases", "packed"}, args...)
	cmd := exec.Command(strings.TrimSpace(string(program)), args...)
	cmd.Dir, cmd.Env = work, os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("csctl: %v\n%s", err, out)
	}
	return store.Folder(filepath.Join(work, "releases"))
}

// programs returns a folder with stratos under both of its names.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "./cmd/stratos")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build stratos: %v\n%s", err, out)
	}
	if err := os.Symlink("stratos", filepath.Join(bin, "csctl-aws")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// createByCommand runs `stratos stack create` in the mode hash, and returns the release's files and
// tag.
func createByCommand(t *testing.T, bin, folder string) (all files.Files, tag string) {
	t.Helper()
	work := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "stratos"), "stack", "create", "-m", "hash", "-o", work, folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("stratos stack create: %v", err)
	}
	release := strings.TrimSpace(string(out))
	if all, err = files.Read(release); err != nil {
		t.Fatal(err)
	}
	return all, filepath.Base(release)
}

func create(t *testing.T, folder string, mode release.Mode) *release.Release {
	t.Helper()
	r, err := release.Create(stackstest.Open(t, folder), mode, format.Versions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHashMode: equal names, hashes and unpacked contents, in both conventions.
func TestHashMode(t *testing.T) {
	for name, staged := range map[string]bool{"staged": true, "one chart": false} {
		t.Run(name, func(t *testing.T) {
			folder := stackstest.Write(t, staged)
			ours := create(t, folder, release.Hash)
			theirs, err := csctl(t, nil, folder, "-m", "hash").Read(t.Context(), ours.Tag.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(theirs.Names(), ours.Files.Names()); diff != "" {
				t.Error(diff)
			}
			for _, file := range theirs.Names() {
				if diff := cmp.Diff(contents(t, file, theirs[file].Data), contents(t, file, ours.Files[file].Data)); diff != "" {
					t.Errorf("%s: %s", file, diff)
				}
			}
		})
	}
}

// contents are the files of an archive by their text, and csctl's keys of hashes.json.
func contents(t *testing.T, name string, data []byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	switch {
	case strings.HasSuffix(name, ".tgz"):
		unpacked, err := files.Unpack(data)
		if err != nil {
			t.Fatal(err)
		}
		for each, file := range unpacked {
			all[each] = string(file.Data)
		}
	case name == format.HashesFile:
		var keys map[string]any
		if err := json.Unmarshal(data, &keys); err != nil {
			t.Fatal(err)
		}
		for key, value := range keys {
			if text, is := value.(string); is {
				all[key] = text
			}
		}
	default:
		all[name] = string(data)
	}
	if len(all) == 0 {
		t.Errorf("%s is empty", name)
	}
	return all
}

// environment is that of csctl for a repository with the name of the test.
func environment(t *testing.T) (map[string]string, *store.Registry) {
	t.Helper()
	env := map[string]string{store.EnvRegistry: shared.Host, store.EnvUsername: registry.Username,
		store.EnvPassword: registry.Password, store.EnvRepository: shared.Host + "/" + strings.ToLower(t.Name())}
	r, err := store.FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return env, r
}

// TestCsctlCallsThePlugin: node-images.yaml of csctl's release is that of create, and the rest too.
func TestCsctlCallsThePlugin(t *testing.T) {
	folder := stackstest.Write(t, true)
	stackstest.ForAWS(t, folder, "{method: get, bases: [ubuntu-24.04], architectures: [amd64, arm64]}")
	bin := programs(t)
	ours, tag := createByCommand(t, bin, folder)
	path := map[string]string{"PATH": bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	theirs, err := csctl(t, path, folder, "-m", "hash").Read(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs.Names(), ours.Names()); diff != "" {
		t.Error(diff)
	}
	for _, file := range theirs.Names() {
		if diff := cmp.Diff(contents(t, file, theirs[file].Data), contents(t, file, ours[file].Data)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	if len(ours[format.NodeImagesFile].Data) == 0 {
		t.Error("no node images")
	}
}

// TestStableModeGoesOnFromOurRelease: csctl finds what publish put into the registry, and makes the
// next version of it.
func TestStableModeGoesOnFromOurRelease(t *testing.T) {
	env, r := environment(t)
	folder := stackstest.Write(t, true)
	first := create(t, folder, release.Stable)
	if _, err := r.Publish(t.Context(), first.Tag.String(), first.Files); err != nil {
		t.Fatal(err)
	}
	stackstest.Edit(t, folder, "node-image/build.sh", "exit 0", "exit 1")
	theirs, err := csctl(t, env, folder, "-m", "stable", "--remote", "oci").Read(t.Context(), "docker-ferrol-1-27-v2")
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := format.ParseMetadata(theirs[format.MetadataFile].Data)
	if err != nil {
		t.Fatal(err)
	}
	want := format.Versions{ClusterStack: "v2", Kubernetes: "v1.27.3",
		Components: format.ComponentVersions{ClusterAddon: "v1", NodeImage: "v2"}}
	if metadata.Versions != want {
		t.Errorf("csctl makes %+v", metadata.Versions)
	}
}

// TestListShowsWhatCsctlPublished: and the release can be read and is valid.
func TestListShowsWhatCsctlPublished(t *testing.T) {
	env, r := environment(t)
	folder := stackstest.Write(t, true)
	csctl(t, env, folder, "-m", "hash", "--remote", "oci", "--publish")
	entries, warnings, err := store.List(t.Context(), r)
	if err != nil || len(warnings) != 0 || len(entries) != 1 {
		t.Fatalf("entries %v, warnings %v, error %v", entries, warnings, err)
	}
	ours := create(t, folder, release.Hash)
	if entries[0].Tag != ours.Tag.String() || entries[0].NodeImage != ours.Tag.Version.String() {
		t.Errorf("entry %+v", entries[0])
	}
	all, err := r.Read(t.Context(), entries[0].Tag)
	if err != nil {
		t.Fatal(err)
	}
	if problems := release.Check(entries[0].Tag, all); len(problems) != 0 {
		t.Error(problems)
	}
}
