package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
)

// The environment variables that csctl and the operator read.
const (
	EnvRegistry    = "OCI_REGISTRY"
	EnvRepository  = "OCI_REPOSITORY"
	EnvAccessToken = "OCI_ACCESS_TOKEN"
	EnvUsername    = "OCI_USERNAME"
	EnvPassword    = "OCI_PASSWORD"
)

// artifactType is csctl's.
const artifactType = "application/vnd.scs.cluster-stacks.v1"

// maxFile bounds a file that is read from a registry, in bytes.
const maxFile = 64 << 20

// tagsPerPage bounds an answer of a registry; one that allows fewer gives fewer.
const tagsPerPage = 1000

// createdAt is a fixed time, because oras would take the present, and each push would have another
// digest.
const createdAt = "1970-01-01T00:00:00Z"

// mediaType is csctl's for a file of a release. A file that csctl has none for gets that of oras.
func mediaType(name string) string {
	const prefix = "application/vnd.scs."
	switch name {
	case format.StagesFile:
		return prefix + "cluster-addon.config.layer.v1+yaml"
	case format.MetadataFile:
		return prefix + "metadata.layer.v1+yaml"
	case format.NodeImagesFile:
		return prefix + "node-image.config.layer.v1+yaml"
	case format.HashesFile:
		return prefix + "hashes.layer.v1+yaml"
	}
	if strings.HasSuffix(name, ".tgz") {
		for part, kind := range map[string]string{format.AddonFolder: "cluster-addon.layer.v1.tar+gzip",
			format.ClassFolder: "cluster-class.v1.tar+gzip", format.NodeImageFolder: "node-image.layer.v1.tar+gzip"} {
			if strings.Contains(name, "-"+part+"-") {
				return prefix + kind
			}
		}
	}
	return ocispec.MediaTypeImageLayer
}

// Registry is a repository of an OCI registry, in which each release is an artifact.
type Registry struct {
	repository *remote.Repository
	name       string
}

// FromEnv returns the repository that csctl's environment variables name. Without credentials it is
// read as anyone. TLS trusts the system's authorities and SSL_CERT_FILE.
func FromEnv(getenv func(string) string) (*Registry, error) {
	registry, name := getenv(EnvRegistry), getenv(EnvRepository)
	if registry == "" {
		return nil, fmt.Errorf("%s must be set to the registry's host, such as ghcr.io", EnvRegistry)
	}
	if !strings.HasPrefix(name, registry+"/") {
		return nil, fmt.Errorf("%s %q must begin with %s and a slash, such as %s/example/stacks", EnvRepository, name,
			EnvRegistry, registry)
	}
	credential := auth.Credential{Username: getenv(EnvUsername), Password: getenv(EnvPassword)}
	if (credential.Username == "") != (credential.Password == "") {
		return nil, fmt.Errorf("%s and %s must be set both, or %s", EnvUsername, EnvPassword, EnvAccessToken)
	}
	if token := getenv(EnvAccessToken); token != "" {
		credential = auth.Credential{AccessToken: base64.StdEncoding.EncodeToString([]byte(token))}
	}
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", EnvRepository, name, err)
	}
	repository.TagListPageSize = tagsPerPage
	repository.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(),
		Credential: auth.StaticCredential(registry, credential)}
	return &Registry{repository: repository, name: name}, nil
}

// Tags reads all pages. A repository into which nothing was pushed yet is empty.
func (r *Registry) Tags(ctx context.Context) ([]string, error) {
	var all []string
	err := r.repository.Tags(ctx, "", func(page []string) error {
		all = append(all, page...)
		return nil
	})
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the tags of %s: %w", r.name, err)
	}
	return all, nil
}

// manifest returns that of a tag, nil where there is no such tag.
func (r *Registry) manifest(ctx context.Context, tag string) (*ocispec.Manifest, ocispec.Descriptor, error) {
	descriptor, text, err := oras.FetchBytes(ctx, r.repository, tag, oras.FetchBytesOptions{})
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, descriptor, nil
	}
	if err != nil {
		return nil, descriptor, fmt.Errorf("%s:%s: %w", r.name, tag, err)
	}
	m := &ocispec.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, descriptor, fmt.Errorf("%s:%s: manifest: %w", r.name, tag, err)
	}
	return m, descriptor, nil
}

// Read fetches a release's files by their titles.
func (r *Registry) Read(ctx context.Context, tag string, names ...string) (files.Files, error) {
	m, _, err := r.manifest(ctx, tag)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("%s has no tag %s", r.name, tag)
	}
	found := files.Files{}
	for _, layer := range m.Layers {
		title := layer.Annotations[ocispec.AnnotationTitle]
		if title == "" || len(names) > 0 && !slices.Contains(names, title) {
			continue
		}
		if layer.Size > maxFile || strings.ContainsAny(title, `/\`) {
			return nil, fmt.Errorf("%s:%s: file %q must be in no folder and have at most %d MiB", r.name, tag, title, maxFile>>20)
		}
		data, err := content.FetchAll(ctx, r.repository, layer)
		if err != nil {
			return nil, fmt.Errorf("%s:%s: %s: %w", r.name, tag, title, err)
		}
		found[title] = files.File{Data: data}
	}
	return found, nil
}

// Publish pushes a release. Equal files give an equal digest, which is part of the name returned.
func (r *Registry) Publish(ctx context.Context, tag string, all files.Files) (string, error) {
	artifact := memory.New()
	packed, err := pack(ctx, artifact, all)
	if err != nil {
		return "", err
	}
	existing, descriptor, err := r.manifest(ctx, tag)
	if err != nil {
		return "", err
	}
	if existing != nil {
		if differs := differences(existing, all); len(differs) > 0 {
			return "", &TagExistsError{Tag: tag, Store: r.name, Differs: differs}
		}
		return r.at(tag, descriptor), nil
	}
	if err := artifact.Tag(ctx, packed, tag); err != nil {
		return "", err
	}
	if _, err := oras.Copy(ctx, artifact, tag, r.repository, tag, oras.DefaultCopyOptions); err != nil {
		return "", fmt.Errorf("push %s:%s: %w", r.name, tag, err)
	}
	return r.at(tag, packed), nil
}

func (r *Registry) at(tag string, d ocispec.Descriptor) string {
	return r.name + ":" + tag + "@" + d.Digest.String()
}

func pack(ctx context.Context, to *memory.Store, all files.Files) (ocispec.Descriptor, error) {
	metadata, err := format.ParseMetadata(all[format.MetadataFile].Data)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s: %w", format.MetadataFile, err)
	}
	hashes, err := format.ParseHashes(all[format.HashesFile].Data)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s: %w", format.HashesFile, err)
	}
	var layers []ocispec.Descriptor
	for _, name := range all.Names() {
		layer, err := oras.PushBytes(ctx, to, mediaType(name), all[name].Data)
		if err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("%s: %w", name, err)
		}
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
		layers = append(layers, layer)
	}
	return oras.PackManifest(ctx, to, oras.PackManifestVersion1_1, artifactType, oras.PackManifestOptions{Layers: layers,
		ManifestAnnotations: map[string]string{"kubernetesVersion": metadata.Versions.Kubernetes,
			"hash": release.Short(hashes.ClusterStack), ocispec.AnnotationCreated: createdAt}})
}

// differences are the files whose digests differ: csctl gives equal files another manifest each
// time.
func differences(existing *ocispec.Manifest, all files.Files) []string {
	digests := map[string]string{}
	for _, layer := range existing.Layers {
		digests[layer.Annotations[ocispec.AnnotationTitle]] = layer.Digest.String()
	}
	differs := map[string]bool{}
	for name, file := range all {
		if digests[name] != content.NewDescriptorFromBytes("", file.Data).Digest.String() {
			differs[name] = true
		}
		delete(digests, name)
	}
	for name := range digests {
		differs[name] = true
	}
	return slices.Sorted(maps.Keys(differs))
}
