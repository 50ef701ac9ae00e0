package source

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/files"
)

// TestFetch: a chart is fetched once, again where it was changed, and never with another digest.
func TestFetch(t *testing.T) {
	chart := files.Files{"Chart.yaml": {Data: []byte("name: a\nversion: 1.0.0\n")}}
	digest, err := chart.Hash()
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	if err := chart.WriteNew(filepath.Join(module, "charts", "a")); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "stacks")
	text := "folder: ../fetched\ncharts:\n- {name: a, module: example.com/a, version: v1.0.0, path: charts/a, digest: '" + digest + "'}\n"
	if err := (files.Files{LockFile: {Data: []byte(text)}}).WriteNew(root); err != nil {
		t.Fatal(err)
	}
	l, err := ReadLock(root)
	if err != nil {
		t.Fatal(err)
	}
	c := &l.Charts[0]
	asked := 0
	download := func(_ context.Context, module_, version string) (string, error) {
		asked++
		if module_ != "example.com/a" || version != "v1.0.0" {
			t.Errorf("asked for %s@%s", module_, version)
		}
		return module, nil
	}
	for i, want := range []bool{true, false} {
		if fetched, err := l.Fetch(t.Context(), c, download); err != nil || fetched != want {
			t.Errorf("time %d: fetched %t, error %v", i, fetched, err)
		}
	}
	changed := filepath.Join(filepath.Dir(root), "fetched", "a", "Chart.yaml")
	if err := os.WriteFile(changed, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fetched, err := l.Fetch(t.Context(), c, download); err != nil || !fetched || asked != 2 {
		t.Errorf("after a change: fetched %t, %d downloads, error %v", fetched, asked, err)
	}
	c.Digest = "h1:other"
	_, err = l.Fetch(t.Context(), c, download)
	if err == nil || !strings.Contains(err.Error(), "chart a in example.com/a@v1.0.0/charts/a has digest "+digest+", and h1:other in charts.lock") {
		t.Errorf("another digest: error %v", err)
	}
	left, err := files.Read(filepath.Dir(changed))
	if err != nil || string(left["Chart.yaml"].Data) != "name: a\nversion: 1.0.0\n" {
		t.Errorf("another digest was written: error %v", err)
	}
	c.Path = "charts/b"
	if _, err := l.Fetch(t.Context(), c, download); err == nil ||
		!strings.Contains(err.Error(), "path charts/b of example.com/a@v1.0.0") {
		t.Errorf("another path: error %v", err)
	}
}

// TestExcludedFiles: they are left out of what is read, count as content, and must be there.
func TestExcludedFiles(t *testing.T) {
	all := files.Files{"Chart.yaml": {Data: []byte("x")}, "crds/kustomization.yaml": {Data: []byte("y")}}
	digest, err := all.Hash()
	if err != nil {
		t.Fatal(err)
	}
	l := &Lock{Folder: "fetched", root: t.TempDir()}
	c := &LockedChart{Name: "a", Digest: digest, Exclude: []string{"crds/kustomization.yaml"}}
	if err := all.WriteNew(l.FolderOf(c)); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Read(c); err != nil || len(got) != 1 || got["Chart.yaml"].Data == nil {
		t.Errorf("read %v, error %v", got.Names(), err)
	}
	if c.content() != digest+" without crds/kustomization.yaml" {
		t.Errorf("content %q", c.content())
	}
	c.Exclude = []string{"other.yaml"}
	if _, err := l.Read(c); err == nil ||
		!strings.Contains(err.Error(), "exclude other.yaml must be a file of the chart") {
		t.Errorf("error %v", err)
	}
}

// TestReadLockNamesTheField has a row for each field.
func TestReadLockNamesTheField(t *testing.T) {
	const good = "folder: ../x\ncharts:\n- {name: a, module: m, version: v1, path: p, digest: 'h1:x'}\n"
	for want, c := range map[string]struct{ old, new string }{
		"folder must be set":                             {"folder: ../x\n", ""},
		"charts[0].name must be set":                     {"name: a, ", ""},
		"charts[0].module must be set":                   {"module: m, ", ""},
		"charts[0].version must be set":                  {"version: v1, ", ""},
		"charts[0].path must be set":                     {"path: p, ", ""},
		`charts[0].digest "sha256:x" must begin with h1`: {"h1:x", "sha256:x"},
		`unknown field "digests"`:                        {"digest:", "digests:"},
	} {
		root := t.TempDir()
		text := strings.Replace(good, c.old, c.new, 1)
		if err := os.WriteFile(filepath.Join(root, LockFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLock(root); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), LockFile) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if l, err := ReadLock(t.TempDir()); err != nil || len(l.Charts) != 0 {
		t.Errorf("no file: %+v, error %v", l, err)
	}
}
