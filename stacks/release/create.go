// Package release makes the release of a cluster stack with the names and contents that csctl gives
// it, and reads and compares releases.
package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
)

// Mode is how the versions of a release are chosen.
type Mode string

// The modes of csctl.
const (
	// Stable takes those of metadata.yaml, which must be those that the content requires.
	Stable Mode = "stable"
	// Hash makes them of the content, for tests of a stack.
	Hash Mode = "hash"
	// Custom takes those that the user names.
	Custom Mode = "custom"
)

// Release is a release in memory.
type Release struct {
	Tag    format.Tag
	Hashes format.Hashes
	// Files are those of the release, all without a folder.
	Files files.Files
}

// shortHash is how much of the stack's hash is in a version, as csctl takes it.
const shortHash = 7

// Short is the part of the stack's hash that versions and registries show.
func Short(hash string) string { return hash[:min(len(hash), shortHash)] }

// Create makes the release of a stack. custom are the versions of the mode custom. Equal folders
// give equal bytes.
func Create(s *source.Stack, mode Mode, custom format.Versions) (*Release, error) {
	packed, err := s.Pack()
	if err != nil {
		return nil, err
	}
	r := &Release{Files: files.Files{}}
	if r.Hashes, err = hashesOf(packed); err != nil {
		return nil, err
	}
	if r.Hashes.Content, err = s.Content(); err != nil {
		return nil, err
	}
	versions, err := versionsOf(s, mode, custom, r.Hashes.ClusterStack)
	if err != nil {
		return nil, err
	}
	r.Hashes.Versions = &versions
	version, err := format.ParseVersion(versions.ClusterStack)
	if err != nil {
		return nil, err
	}
	if r.Tag, err = s.Config.TagOf(version); err != nil {
		return nil, err
	}
	err = r.addFiles(s, ReplaceTokens(packed, versions))
	return r, err
}

func versionsOf(s *source.Stack, mode Mode, custom format.Versions, stackHash string) (format.Versions, error) {
	kubernetes := s.Config.Config.KubernetesVersion
	switch mode {
	case Stable:
		want, _, err := s.Next()
		if err == nil && want != s.Metadata.Versions {
			err = fmt.Errorf("%s has other versions than its content requires: run stratos stack bump --write %s",
				filepath.Join(s.Folder, format.MetadataFile), s.Folder)
		}
		if err == nil && s.Hashes.Versions != nil && want == *s.Hashes.Versions {
			err = fmt.Errorf("%s: nothing has changed since the release %s", s.Folder, want.ClusterStack)
		}
		return want, err
	case Hash:
		version := "v0-sha." + Short(stackHash)
		return format.Versions{ClusterStack: version, Kubernetes: kubernetes,
			Components: format.ComponentVersions{ClusterAddon: version, NodeImage: version}}, nil
	case Custom:
		custom.Kubernetes = kubernetes
		err := custom.Check()
		return custom, err
	default:
		return format.Versions{}, fmt.Errorf("mode %q must be %s, %s or %s", mode, Stable, Hash, Custom)
	}
}

// hashesOf has the keys of csctl, as csctl computes them of the packed folder.
func hashesOf(packed files.Files) (format.Hashes, error) {
	var h format.Hashes
	for _, each := range []struct {
		to    *string
		files files.Files
	}{{&h.ClusterStack, packed}, {&h.ClusterAddonDir, packed.Below(format.AddonFolder)},
		{&h.NodeImageDir, packed.Below(format.NodeImageFolder)}} {
		hash, err := each.files.Hash()
		if err != nil {
			return h, err
		}
		*each.to = clean(hash)
	}
	if values, is := packed[format.AddonValuesFile]; is {
		sum := sha256.Sum256(values.Data)
		h.ClusterAddonValues = clean(base64.StdEncoding.EncodeToString(sum[:]))
	}
	return h, nil
}

// clean makes a hash that can be part of a version, as csctl does.
func clean(hash string) string {
	return strings.ToLower(strings.NewReplacer("/", "", "=", "", "+", "").Replace(strings.TrimPrefix(hash, "h1:")))
}

// ReplaceTokens returns the files with the versions in place of csctl's tokens.
func ReplaceTokens(packed files.Files, versions format.Versions) files.Files {
	tokens := strings.NewReplacer(source.ClassVersionToken, versions.ClusterStack,
		source.AddonVersionToken, versions.Components.ClusterAddon,
		source.NodeImageVersionToken, versions.Components.NodeImage)
	out := files.Files{}
	for name, file := range packed {
		if bytes.Contains(file.Data, []byte("<< ")) {
			file.Data = []byte(tokens.Replace(string(file.Data)))
		}
		out[name] = file
	}
	return out
}

// ClassArchive and AddonArchive are the names under which the operator looks for the charts.
func (r *Release) ClassArchive() string {
	return archiveName(r.Tag, format.ClassFolder, r.Tag.Version.String())
}

// AddonArchive is the name of the addons' archive.
func (r *Release) AddonArchive() string {
	return archiveName(r.Tag, format.AddonFolder, r.Hashes.Versions.Components.ClusterAddon)
}

func archiveName(tag format.Tag, layer, version string) string {
	return tag.Base() + "-" + layer + "-" + version + ".tgz"
}

func (r *Release) addFiles(s *source.Stack, all files.Files) error {
	versions := r.Hashes.Versions
	class, err := packageChart(all.Below(format.ClassFolder), versions.ClusterStack)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(s.Folder, format.ClassFolder), err)
	}
	var addon []byte
	if s.IsStaged() {
		addon, err = all.Below(format.AddonFolder).Archive("", true)
		// csctl copies this file as it stands, tokens included.
		r.Files[format.StagesFile] = s.Files[format.StagesFile]
	} else {
		addon, err = packageChart(all.Below(format.AddonFolder), versions.Components.ClusterAddon)
		r.Files[format.AddonValuesFile] = all[format.AddonValuesFile]
	}
	hashes, errHashes := r.Hashes.Text()
	if err := errors.Join(err, errHashes); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(s.Folder, format.AddonFolder), err)
	}
	for name, data := range map[string][]byte{r.ClassArchive(): class, r.AddonArchive(): addon,
		format.MetadataFile: versions.Text(), format.HashesFile: hashes} {
		r.Files[name] = files.File{Data: data}
	}
	return nil
}
