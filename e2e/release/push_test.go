package release

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// builtFolder has the charts and an image without layers, as Build would write them.
func builtFolder(t *testing.T) (folder, digest string) {
	t.Helper()
	folder, s := t.TempDir(), testSource()
	image, err := mutate.Config(empty.Image, v1.Config{Labels: map[string]string{versionLabel: s.version}})
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.CreatedAt(image, v1.Time{Time: s.time}); err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	top, err := layout.Write(filepath.Join(folder, imageFolder), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := top.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	if digest, err = onlyIndexOf(filepath.Join(folder, imageFolder)); err != nil {
		t.Fatal(err)
	}
	for _, chart := range charts() {
		if err := s.packageChart(chart, digest, folder); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeChecksums(folder); err != nil {
		t.Fatal(err)
	}
	return folder, digest
}

// TestPush pushes to a registry that asks for a password, twice.
func TestPush(t *testing.T) {
	stored := registry.New(registry.Logger(discardLog()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "user" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		stored.ServeHTTP(w, r)
	}))
	defer server.Close()
	folder, digest := builtFolder(t)
	host := strings.TrimPrefix(server.URL, "http://")
	told := make([]string, 2)
	for i := range told {
		var log strings.Builder
		err := Push(t.Context(), PushOptions{Root: root, Folder: folder, Registry: host + "/group",
			Login: Login{User: "user", Password: "secret"}, Log: &log})
		if err != nil {
			t.Fatal(err)
		}
		told[i] = log.String()
	}
	if told[0] != told[1] || strings.Count(told[0], "(not signed)\n") != 3 ||
		!strings.Contains(told[0], host+"/group/stratos@"+digest) {
		t.Errorf("told %q", told)
	}
	for _, tag := range []string{"stratos:v0.2.0-rc.1", "charts/stratos:0.2.0-rc.1", "charts/stratos-crds:0.2.0-rc.1"} {
		ref, err := name.ParseReference(host + "/group/" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Head(ref, remote.WithAuth(&authn.Basic{Username: "user", Password: "secret"})); err != nil {
			t.Error(err)
		}
	}
	err := Push(t.Context(), PushOptions{Root: root, Folder: folder, Registry: host, Log: &strings.Builder{},
		Login: Login{User: "user", Password: "wrong"}})
	if err == nil {
		t.Error("a wrong password pushes")
	}
}

func TestPushRefuses(t *testing.T) {
	folder, _ := builtFolder(t)
	trial := func(t *testing.T) {
		write(t, filepath.Join(folder, trialFile), trialText)
		if err := writeChecksums(folder); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		registry, want string
		change         func(t *testing.T)
	}{
		{registry: "", want: "want a registry"},
		{registry: "https://ghcr.io/x", want: "without a scheme"},
		{registry: "registry.example.com/x", want: "is a trial", change: trial},
		{registry: "127.0.0.1.example.com/x", want: "is a trial"},
	} {
		if tt.change != nil {
			tt.change(t)
		}
		err := Push(t.Context(), PushOptions{Root: root, Folder: folder, Registry: tt.registry, Log: &strings.Builder{}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.registry, err, tt.want)
		}
	}
}

// TestEmptyBaseIsServed: under its fixed name, with an image for each platform.
func TestEmptyBaseIsServed(t *testing.T) {
	if isReachable(t.Context(), trialBase) {
		t.Fatal("something serves the base already")
	}
	stop, err := serveEmptyBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reached := isReachable(t.Context(), trialBase)
	stop()
	if !reached {
		t.Error("the base is not served")
	}
}
