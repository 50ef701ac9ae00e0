package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// root of the repository.
const root = "../.."

func testSource() source {
	return source{root: root, version: "v0.2.0-rc.1", commit: "abc", notes: "* News.",
		time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// TestPluginArchive builds the plugin for this platform twice, unpacks it and calls it, directly
// and as kubectl's completion does.
func TestPluginArchive(t *testing.T) {
	s, p := testSource(), platform{runtime.GOOS, runtime.GOARCH}
	first, second := t.TempDir(), t.TempDir()
	for _, folder := range []string{first, second} {
		if err := s.buildPlugin(t.Context(), p, folder); err != nil {
			t.Fatal(err)
		}
	}
	name := pluginArchive(s.version, p)
	if !bytes.Equal(read(t, filepath.Join(first, name)), read(t, filepath.Join(second, name))) {
		t.Errorf("two builds of %s differ", name)
	}
	unpacked := untar(t, filepath.Join(first, name))
	out := runPlugin(t, unpacked, pluginName, "version", "--client")
	if out != "kubectl-stratos v0.2.0-rc.1\n" {
		t.Errorf("%s printed %s", pluginName, out)
	}
	if out := runPlugin(t, unpacked, completeName, "rep"); !strings.Contains(out, "replace") {
		t.Errorf("%s printed %s", completeName, out)
	}
}

// runPlugin runs a program of the folder with the folder on PATH.
func runPlugin(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, program), args...)
	cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// untar unpacks regular files, which is all that krew unpacks.
func untar(t *testing.T, archive string) string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(read(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	if zipped.Name != "" || !zipped.ModTime.IsZero() {
		t.Errorf("the header of gzip has name %q and time %s", zipped.Name, zipped.ModTime)
	}
	dir, in := t.TempDir(), tar.NewReader(zipped)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil || header.Typeflag != tar.TypeReg || !header.ModTime.Equal(testSource().time) || header.Uid != 0 {
			t.Fatalf("member %+v, error %v", header, err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, header.Name), content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMembers: the archive for Windows has the binary under both names, the others a script.
func TestMembers(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	write(t, binary, "binary")
	for _, p := range pluginPlatforms() {
		members, err := testSource().pluginMembers(p, binary)
		if err != nil {
			t.Fatal(err)
		}
		names, complete := []string{}, ""
		for _, m := range members {
			names = append(names, m.name)
			if strings.HasPrefix(m.name, completeName) {
				complete = string(m.content)
			}
		}
		wantNames, want := []string{"LICENSE", "kubectl-stratos", "kubectl_complete-stratos"}, completeScript
		if p.os == "windows" {
			wantNames, want = []string{"LICENSE", "kubectl-stratos.exe", "kubectl_complete-stratos.exe"}, "binary"
		}
		if !slices.Equal(names, wantNames) || complete != want {
			t.Errorf("%v: names %q, %s is %q", p, names, completeName, complete)
		}
	}
}

func TestZip(t *testing.T) {
	members := []member{{name: "a", content: []byte("text")}, {name: "b.exe", executable: true, content: []byte("binary")}}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := writeZip(out, testSource().time, members); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives differ")
	}
	in, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil || len(in.File) != 2 || in.File[1].Name != "b.exe" || !in.File[0].Modified.Equal(testSource().time) {
		t.Errorf("archive %+v, error %v", in, err)
	}
}

// TestKrewManifest: each platform has the checksum of its archive.
func TestKrewManifest(t *testing.T) {
	s, folder := testSource(), t.TempDir()
	sums := make(map[string]string)
	for _, p := range pluginPlatforms() {
		archive := filepath.Join(folder, pluginArchive(s.version, p))
		write(t, archive, p.os+p.arch)
		sum, err := sha256Of(archive)
		if err != nil {
			t.Fatal(err)
		}
		sums[homepage+"/releases/download/v0.2.0-rc.1/"+filepath.Base(archive)] = sum
	}
	if err := s.writeKrewManifest(folder, pluginPlatforms()); err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(folder, krewManifest)), &plugin); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, p := range plugin.Spec.Platforms {
		got[p.URI] = p.SHA256
		if windows := p.Selector.MatchLabels["os"] == "windows"; windows != strings.HasSuffix(p.Bin, ".exe") {
			t.Errorf("%v has the binary %s", p.Selector, p.Bin)
		}
	}
	if diff := cmp.Diff(sums, got); diff != "" || plugin.Spec.Version != s.version {
		t.Errorf("version %s, checksums (-want +got):\n%s", plugin.Spec.Version, diff)
	}
}

func TestChecksumsFindEachChange(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a"), "1")
	write(t, filepath.Join(folder, "image", "b"), "2")
	if err := writeChecksums(folder); err != nil {
		t.Fatal(err)
	}
	if err := verifyChecksums(folder); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(folder, "image", "b"), "3")
	if err := verifyChecksums(folder); err == nil || !strings.HasSuffix(err.Error(), "image/b") {
		t.Errorf("a changed byte: %v", err)
	}
	write(t, filepath.Join(folder, "image", "b"), "2")
	write(t, filepath.Join(folder, "c"), "4")
	if err := verifyChecksums(folder); err == nil || !strings.HasSuffix(err.Error(), ": c") {
		t.Errorf("one more file: %v", err)
	}
	if err := os.Remove(filepath.Join(folder, "c")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "a")); err != nil {
		t.Fatal(err)
	}
	if err := verifyChecksums(folder); err == nil {
		t.Error("a missing file is not found")
	}
}
