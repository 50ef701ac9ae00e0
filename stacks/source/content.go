package source

import (
	"fmt"
	"path"
	"strings"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// Content returns the hash of each part of the stack, by which changes since the last release are
// found. A part is a file, a folder, or a chart at the place where it is unpacked. It needs no
// network: a chart of charts.lock counts by its digest there.
func (s *Stack) Content() (map[string]string, error) {
	expanded, err := expand(s.Files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Folder, err)
	}
	dependencies, err := s.dependencies(expanded)
	if err != nil {
		return nil, err
	}
	content := map[string]string{}
	for part, members := range partsOf(expanded, s.IsStaged()) {
		if content[part], err = members.Hash(); err != nil {
			return nil, err
		}
	}
	for _, d := range dependencies {
		if d.locked != nil {
			content[d.at] = d.locked.content()
			continue
		}
		chart, err := s.readDependency(d)
		if err != nil {
			return nil, err
		}
		if chart, err = expand(chart); err != nil {
			return nil, fmt.Errorf("%s: %w", d.folder, err)
		}
		if content[d.at], err = withModes(chart).Hash(); err != nil {
			return nil, err
		}
	}
	return content, nil
}

func withModes(all files.Files) files.Files {
	out := files.Files{}
	for name, file := range all {
		out[nameWithMode(name, file)] = file
	}
	return out
}

// nameWithMode makes a change of the executable bit a change of the hash.
func nameWithMode(name string, file files.File) string {
	if file.Executable {
		return name + " (executable)"
	}
	return name
}

// partsOf sorts the files by part. metadata.yaml and hashes.json are in none: a bump changes them.
func partsOf(all files.Files, staged bool) map[string]files.Files {
	parts := map[string]files.Files{}
	for name, file := range all {
		if name == format.MetadataFile || name == format.HashesFile {
			continue
		}
		part := partOf(name, staged)
		if parts[part] == nil {
			parts[part] = files.Files{}
		}
		parts[part][nameWithMode(name, file)] = file
	}
	return parts
}

func partOf(name string, staged bool) string {
	folders := strings.Split(path.Dir(name), "/")
	switch {
	case folders[0] == ".":
		return name
	case folders[0] == format.AddonFolder && staged && len(folders) > 1:
		return path.Join(folders[0], folders[1])
	default:
		return folders[0]
	}
}
