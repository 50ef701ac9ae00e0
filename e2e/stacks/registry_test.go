package stacks

import (
	"errors"
	"fmt"
	"os"
	"slices"
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

// repository is one of the registry with the name of the test, by csctl's environment variables.
func repository(t *testing.T, change ...string) *store.Registry {
	t.Helper()
	env := map[string]string{store.EnvRegistry: shared.Host, store.EnvUsername: registry.Username,
		store.EnvPassword:   registry.Password,
		store.EnvRepository: shared.Host + "/" + strings.ToLower(t.Name())}
	for i := 0; i < len(change); i += 2 {
		env[change[i]] = change[i+1]
	}
	r, err := store.FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func custom(t *testing.T, folder, version string) *release.Release {
	t.Helper()
	r, err := release.Create(stackstest.Open(t, folder), release.Custom, format.Versions{ClusterStack: version,
		Components: format.ComponentVersions{ClusterAddon: "v1", NodeImage: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func publish(t *testing.T, r *store.Registry, made *release.Release) string {
	t.Helper()
	at, err := r.Publish(t.Context(), made.Tag.String(), made.Files)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEmptyRepository(t *testing.T) {
	entries, warnings, err := store.List(t.Context(), repository(t))
	if err != nil || len(entries) != 0 || len(warnings) != 0 {
		t.Errorf("entries %v, warnings %v, error %v", entries, warnings, err)
	}
}

// TestTheSameDigest: two folders, two repositories, and a second time.
func TestTheSameDigest(t *testing.T) {
	r := repository(t)
	first := publish(t, r, custom(t, stackstest.Write(t, true), "v1"))
	if again := publish(t, r, custom(t, stackstest.Write(t, true), "v1")); again != first {
		t.Errorf("again: %s, first %s", again, first)
	}
	other := repository(t, store.EnvRepository, shared.Host+"/other/repository")
	second := publish(t, other, custom(t, stackstest.Write(t, true), "v1"))
	_, digest, _ := strings.Cut(first, "@")
	if !strings.HasPrefix(digest, "sha256:") || !strings.HasSuffix(second, "@"+digest) {
		t.Errorf("first %s, in another repository %s", first, second)
	}
}

func TestReadAgain(t *testing.T) {
	for name, staged := range map[string]bool{"staged": true, "one chart": false} {
		t.Run(name, func(t *testing.T) {
			r := repository(t, store.EnvRepository, shared.Host+"/read/"+strings.ReplaceAll(name, " ", "-"))
			made := custom(t, stackstest.Write(t, staged), "v0-custom.pr123")
			publish(t, r, made)
			got, err := r.Read(t.Context(), made.Tag.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(made.Files, got); diff != "" {
				t.Error(diff)
			}
			if problems := release.Check(made.Tag.String(), got); len(problems) != 0 {
				t.Error(problems)
			}
		})
	}
}

func TestATagWithOtherContent(t *testing.T) {
	r, folder := repository(t), stackstest.Write(t, true)
	first := custom(t, folder, "v1")
	publish(t, r, first)
	stackstest.Edit(t, folder, "clusteraddon.yaml", "apply", "delete")
	second := custom(t, folder, "v1")
	_, err := r.Publish(t.Context(), second.Tag.String(), second.Files)
	var exists *store.TagExistsError
	if !errors.As(err, &exists) || !slices.Equal(exists.Differs, []string{"clusteraddon.yaml", "hashes.json"}) {
		t.Fatalf("error %v", err)
	}
	got, err := r.Read(t.Context(), first.Tag.String())
	if err != nil || !cmp.Equal(got, first.Files) {
		t.Errorf("the release was changed, error %v", err)
	}
	delete(first.Files, format.HashesFile)
	first.Files["node-images.yaml"] = files.File{Data: []byte("x\n")}
	first.Files[format.HashesFile] = second.Files[format.HashesFile]
	if _, err := r.Publish(t.Context(), first.Tag.String(), first.Files); !errors.As(err, &exists) ||
		!slices.Contains(exists.Differs, "node-images.yaml") {
		t.Errorf("a file more: error %v", err)
	}
}

// TestManyPages: in the order of numbers, through all pages, with a warning for a tag of another.
func TestManyPages(t *testing.T) {
	r, folder := repository(t), stackstest.Write(t, true)
	const releases = 12
	var want []string
	for n := 1; n <= releases; n++ {
		made := custom(t, folder, fmt.Sprintf("v%d", n))
		publish(t, r, made)
		want = append(want, made.Tag.String())
	}
	foreign := custom(t, folder, "v1")
	if _, err := r.Publish(t.Context(), "latest", foreign.Files); err != nil {
		t.Fatal(err)
	}
	before := shared.Pages.Load()
	entries, warnings, err := store.List(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Tag)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `tag "latest"`) {
		t.Errorf("warnings %q", warnings)
	}
	if pages := shared.Pages.Load() - before; pages != (releases+1)/registry.TagsPerPage {
		t.Errorf("%d pages were read after the first", pages)
	}
	second := store.Entry{Tag: "docker-ferrol-1-27-v2", Kubernetes: "v1.27.3", ClusterStack: "v2", ClusterAddon: "v1",
		NodeImage: "v1", ClusterClass: "docker-ferrol-1-27-v2"}
	if diff := cmp.Diff(second, entries[1]); diff != "" {
		t.Error(diff)
	}
}

func TestWrongPassword(t *testing.T) {
	r := repository(t, store.EnvPassword, "wrong")
	made := custom(t, stackstest.Write(t, true), "v1")
	_, err := r.Publish(t.Context(), made.Tag.String(), made.Files)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("error %v", err)
	}
	if _, err := r.Tags(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("list: error %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nothing":            {want: "OCI_REGISTRY must be set"},
		"no repository":      {env: map[string]string{store.EnvRegistry: "ghcr.io"}, want: `OCI_REPOSITORY "" must begin with`},
		"another registry":   {env: map[string]string{store.EnvRegistry: "ghcr.io", store.EnvRepository: "quay.io/a/b"}, want: "such as ghcr.io/example/stacks"},
		"no password":        {env: map[string]string{store.EnvRegistry: "ghcr.io", store.EnvRepository: "ghcr.io/a/b", store.EnvUsername: "a"}, want: "OCI_USERNAME and OCI_PASSWORD must be set both"},
		"a name that is not": {env: map[string]string{store.EnvRegistry: "ghcr.io", store.EnvRepository: "ghcr.io/A/b"}, want: "OCI_REPOSITORY"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.FromEnv(func(name string) string { return c.env[name] })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
