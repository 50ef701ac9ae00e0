package release

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	imageFolder = "image"
	sbomFolder  = "sbom"
	trialFile   = "TRIAL"
	// trialBase is where the empty base is served. ko writes the name of the base into the image, so a
	// port that differs would change the digest.
	trialBase = "127.0.0.1:37419/stratos-trial/empty:latest"
	// imageUser is the user of the Dockerfile.
	imageUser    = "65532:65532"
	versionLabel = "org.opencontainers.image.version"
	// reachable bounds the question whether the registry of the base answers.
	reachable = 20 * time.Second
)

const trialText = "This release is a trial: the registry of the base image was not reachable, so the image has\n" +
	"an empty base, without certificate authorities and time zones. Do not publish it.\n"

// imagePlatforms are those of the image.
func imagePlatforms() []platform { return []platform{{"linux", "amd64"}, {"linux", "arm64"}} }

// buildImage has ko write the image as an OCI layout and its SBOMs, and returns the digest of the
// index. A trial has an empty base.
func (s source) buildImage(ctx context.Context, folder string) (digest string, trial bool, err error) {
	base, err := s.baseImage()
	if err != nil {
		return "", false, err
	}
	if !isReachable(ctx, base) {
		trial, base = true, trialBase
		stop, err := serveEmptyBase(ctx)
		if err != nil {
			return "", false, err
		}
		defer stop()
		if err := os.WriteFile(filepath.Join(folder, trialFile), []byte(trialText), 0o644); err != nil {
			return "", false, err
		}
	}
	if err := s.runKo(ctx, base, folder); err != nil {
		return "", false, err
	}
	digest, err = onlyIndexOf(filepath.Join(folder, imageFolder))
	return digest, trial, err
}

func (s source) runKo(ctx context.Context, base, folder string) error {
	folder, err := s.below(folder)
	if err != nil {
		return err
	}
	ko := tool(s.root, "ko", "build", "./cmd/stratos", "--bare", "--push=false", "--image-user="+imageUser,
		"--oci-layout-path="+filepath.Join(folder, imageFolder), "--sbom-dir="+filepath.Join(folder, sbomFolder),
		"--image-label=org.opencontainers.image.source="+homepage,
		"--image-label="+versionLabel+"="+s.version,
		"--image-label=org.opencontainers.image.revision="+s.commit,
		"--image-label=org.opencontainers.image.licenses=Apache-2.0")
	ko.env = append(buildEnvironment(), "VERSION="+s.version, "KO_DOCKER_REPO=ghcr.io/stratos-sh/stratos",
		"KO_DEFAULTBASEIMAGE="+base, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.time.Unix()))
	_, err = ko.run(ctx)
	return err
}

// below is the folder as seen from the root where ko runs, if it is in there. ko makes a reference
// of an image out of the path, which admits no capitals as in /Users.
func (s source) below(folder string) (string, error) {
	root, err := filepath.Abs(s.root)
	if err != nil {
		return "", err
	}
	if path, err := filepath.Rel(root, folder); err == nil && filepath.IsLocal(path) {
		return path, nil
	}
	return folder, nil
}

// baseImage is the base that .ko.yaml names.
func (s source) baseImage() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, ".ko.yaml"))
	if err != nil {
		return "", err
	}
	var config struct {
		DefaultBaseImage string `json:"defaultBaseImage"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf(".ko.yaml: %w", err)
	}
	return config.DefaultBaseImage, nil
}

func isReachable(ctx context.Context, image string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	ref, err := name.ParseReference(image)
	if err != nil {
		return false
	}
	_, err = remote.Head(ref, remote.WithContext(ctx))
	return err == nil
}

// serveEmptyBase serves the base of a trial until stop is called.
func serveEmptyBase(ctx context.Context) (stop func(), err error) {
	ref, err := name.ParseReference(trialBase)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ref.Context().RegistryStr())
	if err != nil {
		return nil, fmt.Errorf("serve the empty base of a trial: %w", err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(discardLog())), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // ends with Close
	stop = func() { _ = server.Close() }
	index, err := emptyBase()
	if err == nil {
		err = remote.WriteIndex(ref, index, remote.WithContext(ctx))
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// emptyBase is an index of one image without layers for each platform.
func emptyBase() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range imagePlatforms() {
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: p.os, Architecture: p.arch,
			RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}}})
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	return index, nil
}

// onlyIndexOf returns the digest of the one index of an OCI layout, which must have an image for
// each platform.
func onlyIndexOf(dir string) (string, error) {
	index, err := openIndex(dir)
	if err != nil {
		return "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	for _, p := range imagePlatforms() {
		if !slices.ContainsFunc(manifest.Manifests, func(d v1.Descriptor) bool {
			return d.Platform != nil && d.Platform.OS == p.os && d.Platform.Architecture == p.arch
		}) {
			return "", fmt.Errorf("%s: the image lacks %s/%s", dir, p.os, p.arch)
		}
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// openIndex opens the one index of an OCI layout.
func openIndex(dir string) (v1.ImageIndex, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: want one image, found %d", dir, len(manifest.Manifests))
	}
	return top.ImageIndex(manifest.Manifests[0].Digest)
}
