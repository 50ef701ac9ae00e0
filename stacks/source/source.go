// Package source reads the folder of a cluster stack, with the charts that it depends on.
package source

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/stacks/bump"
	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// Stack is the folder of a stack for one minor of Kubernetes.
type Stack struct {
	// Folder is where it lies.
	Folder   string
	Files    files.Files
	Config   *format.Config
	Metadata *format.Metadata
	Hashes   *format.Hashes
	// Stages is nil in a folder of the old convention, which has no clusteraddon.yaml.
	Stages *format.Stages
	lock   *Lock
}

// Open reads a stack's folder. It fails where a file is missing that csctl or bump reads, or cannot
// be parsed.
func Open(folder string) (*Stack, error) {
	found, err := files.Read(folder)
	if err != nil {
		return nil, err
	}
	s := &Stack{Folder: folder, Files: found}
	var problems []error
	s.Config = read(s, format.ConfigFile, format.ParseConfig, &problems)
	s.Metadata = read(s, format.MetadataFile, format.ParseMetadata, &problems)
	s.Hashes = read(s, format.HashesFile, format.ParseLastRelease, &problems)
	if s.IsStaged() {
		s.Stages = read(s, format.StagesFile, format.ParseStages, &problems)
	}
	s.lock, err = lockOf(folder)
	return s, errors.Join(append(problems, err)...)
}

func read[T any](s *Stack, name string, parse func([]byte) (*T, error), problems *[]error) *T {
	file, there := s.Files[name]
	if !there {
		*problems = append(*problems, fmt.Errorf("%s is missing", filepath.Join(s.Folder, name)))
		return nil
	}
	value, err := parse(file.Data)
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			*problems = append(*problems, fmt.Errorf("%s: %s", filepath.Join(s.Folder, name), line))
		}
	}
	return value
}

// IsStaged reports whether the addons are stages, each a chart in a folder of its own.
func (s *Stack) IsStaged() bool {
	_, is := s.Files[format.StagesFile]
	return is
}

// Charts returns the folders of the stack's own charts that are there, the class first.
func (s *Stack) Charts() []string {
	folders := []string{format.ClassFolder, format.AddonFolder}
	if s.IsStaged() {
		folders = folders[:1]
		for _, name := range s.Files.Folders(format.AddonFolder) {
			folders = append(folders, path.Join(format.AddonFolder, name))
		}
	}
	return slices.DeleteFunc(folders, func(folder string) bool {
		_, is := s.Files[path.Join(folder, format.ChartFile)]
		return !is
	})
}

// providersFolder is the folder that holds the folders of all stacks.
const providersFolder = "providers"

// Find returns the folders of the stacks in a folder: those below its folder providers/, or itself
// where it has none.
func Find(folder string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(folder, providersFolder)); err != nil {
		if _, err := os.Stat(folder); err != nil {
			return nil, err
		}
		return []string{folder}, nil
	}
	found, err := filepath.Glob(filepath.Join(folder, providersFolder, "*", "*", "*", format.ConfigFile))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no stack: providers/<provider>/<stack>/<minor>/%s is missing", folder, format.ConfigFile)
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found, err
}

// rootOf is the folder above providers/ in which the stack lies, "" where it lies elsewhere.
func rootOf(folder string) (string, error) {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	providers := filepath.Join(whole, "..", "..", "..")
	if filepath.Base(providers) != providersFolder {
		return "", nil
	}
	return filepath.Dir(providers), nil
}

// Next returns the versions that the content requires, and a row for each component.
func (s *Stack) Next() (format.Versions, []bump.Row, error) {
	content, err := s.Content()
	if err != nil {
		return format.Versions{}, nil, err
	}
	return bump.Next(s.Hashes, content, s.Config.Config.KubernetesVersion, s.Metadata.Versions)
}
