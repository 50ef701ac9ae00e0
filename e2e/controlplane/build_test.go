package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// placeBinaries makes a cache folder that looks built.
func placeBinaries(t *testing.T, r Recipe, cache string) {
	t.Helper()
	dir := filepath.Join(cache, "stratos", r.Key())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Commands {
		if err := os.WriteFile(filepath.Join(dir, b.Name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func mustRecipe(t *testing.T) Recipe {
	t.Helper()
	r, err := kubernetesRecipe()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cacheEntries are the names in the cache folder, without lock files, which stay on purpose.
func cacheEntries(t *testing.T, cache string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "stratos"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".lock") {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestBuildReportsWhatTheCallerCanRepair(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		want        error
	}{
		"no go command":                    {map[string]string{"PATH": ""}, ErrNoGo},
		"modules missing and proxy off":    {map[string]string{"GOPROXY": "off"}, ErrModulesUnreachable},
		"modules missing and proxy silent": {map[string]string{"GOPROXY": "http://127.0.0.1:1"}, ErrModulesUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", cache)
			t.Setenv("GOMODCACHE", filepath.Join(cache, "modules"))
			for variable, value := range test.environment {
				t.Setenv(variable, value)
			}
			_, err := Build(t.Context(), nil)
			if !errors.Is(err, test.want) {
				t.Fatalf("Build: %v, want %v", err, test.want)
			}
			if left := cacheEntries(t, cache); slices.ContainsFunc(left, func(n string) bool { return n != "modules" }) {
				t.Errorf("the failed build left %q", left)
			}
		})
	}
}

func TestBuildUsesWhatIsBuiltWithoutAGoCommand(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", "")
	r := mustRecipe(t)
	placeBinaries(t, r, cache)
	binaries, err := Build(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(cache, "stratos", r.Key(), "kube-apiserver"); binaries.APIServer != want {
		t.Errorf("APIServer = %s, want %s", binaries.APIServer, want)
	}
}

func TestBuildDoesNotTrustAFolderThatLostAFile(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", "")
	r := mustRecipe(t)
	placeBinaries(t, r, cache)
	if err := os.Remove(filepath.Join(cache, "stratos", r.Key(), "etcd")); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), nil); !errors.Is(err, ErrNoGo) {
		t.Errorf("Build: %v, want an attempt to build, which ends with %v", err, ErrNoGo)
	}
}

func TestBuildWaitsForTheProcessThatBuilds(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	r := mustRecipe(t)
	if err := os.MkdirAll(filepath.Join(cache, "stratos"), 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := tryLock(filepath.Join(cache, "stratos", r.Key()+".lock"))
	if err != nil || other == nil {
		t.Fatalf("tryLock: %v, %v", other, err)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 2*lockInterval)
	defer cancel()
	var progress bytes.Buffer
	if _, err := Build(impatient, &progress); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Build beside another: %v, want %v", err, context.DeadlineExceeded)
	}
	if !strings.Contains(progress.String(), "another process builds it") {
		t.Errorf("progress = %q, want a word about the other process", progress.String())
	}

	placeBinaries(t, r, cache)
	if err := os.Remove(filepath.Join(cache, "stratos", r.Key(), "etcd")); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := Build(t.Context(), nil)
		waiting <- err
	}()
	placeBinaries(t, r, cache) // the other finishes, and must not be followed by a second build
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("Build after the other finished: %v", err)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	r := mustRecipe(t)
	stale := filepath.Join(cache, "stratos", r.Key()+".tmp-of-a-killed-builder")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	// long enough to start the go command, too short to link
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Build(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Build: %v, want %v", err, context.DeadlineExceeded)
	}
	if left := cacheEntries(t, cache); len(left) > 0 {
		t.Errorf("the cancelled build left %q", left)
	}
}

func TestBuildIgnoresTheCallersGoSettings(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=vendor -tags=nonsense")
	t.Setenv("GOWORK", "/nonexistent/go.work")
	t.Setenv("GOOS", "windows")
	t.Setenv("GOARCH", "arm")
	t.Setenv("CGO_ENABLED", "1")
	r := mustRecipe(t)
	r.Commands = r.Commands[:1] // etcd links fastest
	r.Files = []ModuleFile{{Module: "go.etcd.io/etcd/server/v3", Path: "etcdmain/help.go"}}
	target := filepath.Join(t.TempDir(), "built")
	var progress bytes.Buffer
	if err := r.buildInto(t.Context(), target, &progress); err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), filepath.Join(target, "etcd"), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(version), "etcd Version: 3.") {
		t.Errorf("etcd --version: %v\n%s", err, version)
	}
	if !strings.Contains(progress.String(), "building etcd (1 of 1)") {
		t.Errorf("progress = %q, want it to name the binary", progress.String())
	}
	if text, err := os.ReadFile(filepath.Join(target, "help.go")); err != nil ||
		!strings.Contains(string(text), "package etcdmain") {
		t.Errorf("the file of the module is not beside the program: %v", err)
	}
	if !r.complete(target) {
		t.Error("what was built does not pass for complete")
	}
	if err := os.Remove(filepath.Join(target, "help.go")); err != nil {
		t.Fatal(err)
	}
	if r.complete(target) {
		t.Error("a folder that lost the file passes for complete")
	}
}

func TestCacheKey(t *testing.T) {
	r := mustRecipe(t)
	if !strings.HasPrefix(r.Key(), "kubernetes-"+r.Version+"-") || !strings.HasPrefix(r.Version, "v1.") {
		t.Errorf("key %q, version %q: want a key that starts with the version", r.Key(), r.Version)
	}
	changed := r
	changed.Commands = slices.Clone(r.Commands)
	changed.Commands[1].LDFlags += " -X a.b=c"
	if changed.Key() == r.Key() {
		t.Error("other linker flags have the same key, so their binaries would never be built")
	}
	changed = r
	changed.Files = []ModuleFile{{Module: "go.etcd.io/etcd/server/v3", Path: "LICENSE"}}
	if changed.Key() == r.Key() {
		t.Error("another file has the same key, so it would never be copied")
	}
	if mustRecipe(t).Key() != r.Key() {
		t.Error("equal input gave two keys")
	}
}

func TestBuildOutput(t *testing.T) {
	var output buildOutput
	for _, part := range []string{"k8s.io/api/core/v1\nk8s.io/", "api/apps/v1\n",
		"# k8s.io/broken\nfile.go:1: undefined: x\n", "go: cut o", "ff"} {
		if _, err := output.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got := output.packages(); got != 2 {
		t.Errorf("packages = %d, want 2", got)
	}
	want := "# k8s.io/broken\nfile.go:1: undefined: x\ngo: cut off"
	if got := output.tail(); got != want {
		t.Errorf("tail = %q, want %q", got, want)
	}
}
