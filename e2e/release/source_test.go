package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	tests := map[string]bool{
		"v0.2.0": true, "v0.2.0-rc.1": true, "v10.20.30-alpha-1.x": true,
		"": false, "0.2.0": false, "v0.2": false, "v01.2.0": false, "v0.2.0-": false, "v0.2.0-rc.01": false,
		"v0.2.0+build": false, "v0.2.0 rc": false, "v0.2.0\n": false,
	}
	for version, want := range tests {
		if err := checkVersion(version); (err == nil) != want {
			t.Errorf("%q: error %v", version, err)
		}
	}
}

const changelog = `# Changelog

## Unreleased

* Not yet.

## v0.2.0 (2026-12-01)

* One.

### More

* Two.

## v0.2.0-rc.1

## v0.1.0

* First.
`

func TestChangelogSections(t *testing.T) {
	tests := map[string]string{"v0.2.0": "* One.\n\n### More\n\n* Two.", "v0.1.0": "* First.", "v0.2.0-rc.1": "",
		"v0.3.0": ""}
	for version, want := range tests {
		got, err := changelogSection(changelog, version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, error %v", version, got, err)
		}
	}
}

// repository commits the files and returns its folder.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message", "all"}} {
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRefusals: Build refuses before it has written anything.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		version string
		change  func(dir string)
		want    string
	}{
		"an invalid version":   {"0.2.0", func(string) {}, "is no version"},
		"no section":           {"v0.3.0", func(string) {}, "has no section"},
		"a section of no text": {"v0.2.0-rc.1", func(string) {}, "has no section"},
		"a changed file": {"v0.2.0", func(dir string) {
			write(t, filepath.Join(dir, "CHANGELOG.md"), changelog+"\n* More.\n")
		}, "CHANGELOG.md"},
		"an untracked file": {"v0.2.0", func(dir string) { write(t, filepath.Join(dir, "new.go"), "package x\n") }, "new.go"},
		"a folder that holds something else": {"v0.2.0", func(dir string) {
			write(t, filepath.Join(dir, "dist", "mine", "file"), "precious")
		}, "holds no release"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := repository(t, map[string]string{"CHANGELOG.md": changelog, ".gitignore": "/dist/\n"})
			tt.change(dir)
			folder := filepath.Join(dir, "dist", "mine")
			before, _ := os.ReadDir(folder)
			var log strings.Builder
			err := Build(t.Context(), Options{Root: dir, Version: tt.version, Folder: folder, Log: &log})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			after, _ := os.ReadDir(folder)
			if len(after) != len(before) || log.Len() > 0 {
				t.Errorf("%d files before, %d after, log %q", len(before), len(after), log.String())
			}
		})
	}
}

func TestSourceIsTheCommit(t *testing.T) {
	dir := repository(t, map[string]string{"CHANGELOG.md": changelog})
	s, err := openSource(t.Context(), dir, "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	head, err := git(t.Context(), dir, "rev-parse", "HEAD")
	if err != nil || s.commit != head || s.chartVersion() != "0.2.0" || s.time.IsZero() {
		t.Errorf("got %+v, head %s, error %v", s, head, err)
	}
}
