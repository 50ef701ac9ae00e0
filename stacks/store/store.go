// Package store keeps releases of cluster stacks: in a folder, as the operator's local mode reads
// them, or in an OCI registry, in csctl's format.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// Store keeps releases by their tag.
type Store interface {
	// Tags lists all tags, foreign ones included. An empty store is no error.
	Tags(ctx context.Context) ([]string, error)
	// Read returns the files of a release, or those of the names that it has.
	Read(ctx context.Context, tag string, names ...string) (files.Files, error)
	// Publish adds a release and says where it is. A tag that exists with the same files is left as
	// it is, and an error if it has others.
	Publish(ctx context.Context, tag string, all files.Files) (string, error)
}

// TagExistsError says that a tag has other content than the release that is published.
type TagExistsError struct {
	Tag, Store string
	// Differs are the files that differ.
	Differs []string
}

func (e *TagExistsError) Error() string {
	return fmt.Sprintf("tag %s exists in %s with another content of %s: a published release is never replaced, make a new version; "+
		"remove one that was never published", e.Tag, e.Store, strings.Join(e.Differs, ", "))
}

// Folder is a store in which each release is a folder with the tag's name.
type Folder string

// Tags lists the folders.
func (f Folder) Tags(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var tags []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			tags = append(tags, entry.Name())
		}
	}
	return tags, err
}

// Read reads a release's folder.
func (f Folder) Read(_ context.Context, tag string, names ...string) (files.Files, error) {
	all, err := files.Read(filepath.Join(string(f), tag))
	return only(all, names), err
}

// Publish writes a release's folder.
func (f Folder) Publish(_ context.Context, tag string, all files.Files) (string, error) {
	to := filepath.Join(string(f), tag)
	existing, err := files.Read(to)
	if errors.Is(err, os.ErrNotExist) {
		return to, all.WriteNew(to)
	}
	if err != nil {
		return "", err
	}
	var differs []string
	for _, name := range union(existing, all) {
		if string(existing[name].Data) != string(all[name].Data) {
			differs = append(differs, name)
		}
	}
	if len(differs) > 0 {
		return "", &TagExistsError{Tag: tag, Store: string(f), Differs: differs}
	}
	return to, nil
}

func union(a, b files.Files) []string {
	all := files.Files{}
	all.Put("", a)
	all.Put("", b)
	return all.Names()
}

func only(all files.Files, names []string) files.Files {
	if len(names) == 0 {
		return all
	}
	some := files.Files{}
	for _, name := range names {
		if file, there := all[name]; there {
			some[name] = file
		}
	}
	return some
}

// Entry is a release of a list.
type Entry struct {
	Tag          string `json:"tag"`
	Kubernetes   string `json:"kubernetes"`
	ClusterStack string `json:"clusterStack"`
	ClusterAddon string `json:"clusterAddon"`
	NodeImage    string `json:"nodeImage"`
	// ClusterClass is the name of the release's ClusterClass.
	ClusterClass string `json:"clusterClass"`
}

// List returns the releases in order, and a warning for each tag that is none or cannot be read.
func List(ctx context.Context, s Store) ([]Entry, []string, error) {
	names, err := s.Tags(ctx)
	if err != nil {
		return nil, nil, err
	}
	var tags []format.Tag
	var warnings []string
	for _, name := range names {
		tag, err := format.ParseTag(name)
		if err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		tags = append(tags, tag)
	}
	slices.SortFunc(tags, format.Tag.Compare)
	var entries []Entry
	for _, tag := range tags {
		found, err := s.Read(ctx, tag.String(), format.MetadataFile)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", tag, err)
		}
		metadata, err := format.ParseMetadata(found[format.MetadataFile].Data)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %v", tag, format.MetadataFile, err))
			continue
		}
		v := metadata.Versions
		entries = append(entries, Entry{Tag: tag.String(), Kubernetes: v.Kubernetes, ClusterStack: v.ClusterStack,
			ClusterAddon: v.Components.ClusterAddon, NodeImage: v.Components.NodeImage, ClusterClass: tag.ClassName()})
	}
	return entries, warnings, nil
}
