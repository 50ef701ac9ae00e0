package acceptance

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/stratos-sh/stratos/e2e/release"
)

// pushed is a release in a registry on loopback.
type pushed struct {
	host string
	// image and charts are references by digest.
	image  string
	charts map[string]string
	// lies has the registry change a byte of each blob.
	lies *atomic.Bool
}

// push pushes the release to a registry on loopback.
func push(t *testing.T, folder, private string) pushed {
	t.Helper()
	r := pushed{charts: make(map[string]string), lies: new(atomic.Bool)}
	stored := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(r.lying(stored))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	var told bytes.Buffer
	err := release.Push(t.Context(), release.PushOptions{Root: root, Folder: folder, Registry: r.host,
		Signer: release.Signer{Key: private}, Log: &told})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(told.String()) {
		reference, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if state != "(signed)" {
			t.Errorf("told %q", line)
		}
		repository, _, _ := strings.Cut(reference, "@")
		if chart, is := strings.CutPrefix(repository, r.host+"/charts/"); is {
			r.charts[chart] = reference
		} else {
			r.image = reference
		}
	}
	if r.image == "" || r.charts["stratos"] == "" || r.charts["stratos-crds"] == "" {
		t.Fatalf("told %s", told.String())
	}
	err = release.Push(t.Context(), release.PushOptions{Root: root, Folder: folder, Registry: "registry.example.com",
		Log: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "is a trial") {
		t.Errorf("the push of a trial to others: %v", err)
	}
	return r
}

// lying serves the registry, and changes a byte in the middle of each large blob while r.lies.
func (r pushed) lying(stored http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !r.lies.Load() || request.Method != http.MethodGet || !strings.Contains(request.URL.Path, "/blobs/") {
			stored.ServeHTTP(w, request)
			return
		}
		answer := httptest.NewRecorder()
		stored.ServeHTTP(answer, request)
		body := answer.Body.Bytes()
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	})
}

func verify(t *testing.T, key, reference string) error {
	t.Helper()
	return cosign(t, "verify", "--insecure-ignore-tlog", "--key="+key, reference)
}

func (r pushed) isSigned(t *testing.T, public, stranger string) {
	t.Helper()
	for _, reference := range []string{r.image, r.charts["stratos"], r.charts["stratos-crds"]} {
		if err := verify(t, public, reference); err != nil {
			t.Error(err)
		}
		if verify(t, stranger, reference) == nil {
			t.Errorf("the key of a stranger verifies %s", reference)
		}
	}
}

// refusesChangedBytes: a changed manifest has another digest, which has no signature, and a changed
// blob is not that of the manifest.
func (r pushed) refusesChangedBytes(t *testing.T, public string) {
	t.Helper()
	index := r.index(t)
	manifest, err := index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(r.host + "/stratos:changed")
	if err != nil {
		t.Fatal(err)
	}
	changed := append(bytes.TrimSpace(manifest), '\n')
	if bytes.Equal(changed, manifest) {
		t.Fatal("the manifest was not changed")
	}
	if err := remote.Put(ref, rawIndex{index, changed}); err != nil {
		t.Fatal(err)
	}
	if verify(t, public, ref.String()) == nil {
		t.Error("a manifest with one byte more is verified")
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	r.lies.Store(true)
	defer r.lies.Store(false)
	if validate.Index(r.index(t)) == nil {
		t.Error("an image with changed bytes is valid")
	}
	pull := helm("v4", "pull", "--plain-http", "--destination="+t.TempDir(), "oci://"+r.charts["stratos"])
	if _, err := run(t.Context(), helmDir, nil, pull...); err == nil {
		t.Error("Helm pulls a chart with changed bytes")
	}
}

// rawIndex is an index with the bytes of another manifest.
type rawIndex struct {
	v1.ImageIndex
	raw []byte
}

func (i rawIndex) RawManifest() ([]byte, error) { return i.raw, nil }

func (r pushed) index(t *testing.T) v1.ImageIndex {
	t.Helper()
	ref, err := name.ParseReference(r.image)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// hasBothArchitectures pulls the image of each architecture and reads its binary and its SBOM.
func (r pushed) hasBothArchitectures(t *testing.T, folder string) {
	t.Helper()
	index := r.index(t)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if len(manifest.Manifests) != len(machines) {
		t.Errorf("the index has %d images", len(manifest.Manifests))
	}
	for architecture, machine := range machines {
		for _, d := range manifest.Manifests {
			if d.Platform.OS != "linux" || d.Platform.Architecture != architecture {
				continue
			}
			image, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Architecture != architecture || config.Config.User != "65532:65532" ||
				config.Created.UTC().Format("2006-01-02T15:04:05Z") != "2026-03-01T12:00:00Z" {
				t.Errorf("%s: configuration %+v", architecture, config)
			}
			inspectBinary(t, architecture, machine, memberOf(t, image, config.Config.Entrypoint[0]))
			inspectSBOM(t, filepath.Join(folder, "sbom", "stratos-linux-"+architecture+".spdx.json"))
			delete(machines, architecture)
		}
	}
	for architecture := range machines {
		t.Errorf("the index has no image for %s", architecture)
	}
}

// memberOf reads a file of the image.
func memberOf(t *testing.T, image v1.Image, path string) []byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(content)
		for {
			header, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if "/"+strings.TrimPrefix(header.Name, "/") == path && header.Typeflag == tar.TypeReg {
				file, err := io.ReadAll(in)
				if err != nil {
					t.Fatal(err)
				}
				return file
			}
		}
	}
	t.Fatalf("the image has no %s", path)
	return nil
}

func inspectBinary(t *testing.T, architecture string, machine elf.Machine, binary []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if file.Machine != machine || file.Section(".interp") != nil {
		t.Errorf("%s: machine %s, or the binary is not static", architecture, file.Machine)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOARCH"] != architecture || settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" ||
		settings["vcs.revision"] != "" {
		t.Errorf("%s: settings %v", architecture, settings)
	}
	if !bytes.Contains(binary, []byte(version)) {
		t.Errorf("%s: the binary does not have its version", architecture)
	}
}

func inspectSBOM(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		SPDXVersion string `json:"spdxVersion"`
		Packages    []struct {
			Name string `json:"name"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, p := range document.Packages {
		if p.Name == "k8s.io/client-go" && strings.HasPrefix(document.SPDXVersion, "SPDX-2") {
			return
		}
	}
	t.Errorf("%s is %s with %d packages, none of them k8s.io/client-go", path, document.SPDXVersion,
		len(document.Packages))
}
