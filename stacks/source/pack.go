package source

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// dependency is a chart of another folder that belongs into a chart of the stack.
type dependency struct {
	// at is where it is unpacked, from the stack's folder.
	at string
	// folder is where it lies.
	folder string
	locked *LockedChart
}

type chartDependencies struct {
	Dependencies []struct {
		Name       string `json:"name"`
		Repository string `json:"repository"`
	} `json:"dependencies"`
}

// dependenciesOf are the charts that a chart of the stack takes from other folders. A dependency
// that is in charts/ needs no folder. One that must be fetched from a repository is an error,
// because the content of a stack must be known without a network.
func (s *Stack) dependenciesOf(chart string, expanded files.Files) ([]dependency, error) {
	file := path.Join(chart, format.ChartFile)
	var d chartDependencies
	if err := yaml.Unmarshal(s.Files[file].Data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.Folder, file), err)
	}
	var found []dependency
	var problems []error
	for i, c := range d.Dependencies {
		at := path.Join(chart, "charts", c.Name)
		_, isThere := expanded[path.Join(at, format.ChartFile)]
		from, isFolder := strings.CutPrefix(c.Repository, "file://")
		folder := filepath.Join(s.Folder, chart, from)
		switch {
		case isThere && isFolder && !isFolderThere(folder):
			// A packed folder, from whose place the path leads nowhere.
		case isThere && isFolder:
			problems = append(problems, fmt.Errorf("%s: dependencies[%d] %s: remove %s, because repository names a folder",
				filepath.Join(s.Folder, file), i, c.Name, filepath.Join(s.Folder, at)))
		case isFolder:
			folder, err := filepath.Abs(folder)
			if err != nil {
				return nil, err
			}
			found = append(found, dependency{at: at, folder: folder, locked: s.lock.at(folder)})
		case !isThere:
			problems = append(problems, fmt.Errorf("%s: dependencies[%d] %s: repository %q must begin with file://, or the chart lie in %s",
				filepath.Join(s.Folder, file), i, c.Name, c.Repository, filepath.Join(s.Folder, chart, "charts")))
		}
	}
	return found, errors.Join(problems...)
}

func isFolderThere(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

// dependencies are those of all charts.
func (s *Stack) dependencies(expanded files.Files) ([]dependency, error) {
	var all []dependency
	var problems []error
	for _, chart := range s.Charts() {
		found, err := s.dependenciesOf(chart, expanded)
		all, problems = append(all, found...), append(problems, err)
	}
	return all, errors.Join(problems...)
}

// maxNested bounds how often archives in archives are unpacked.
const maxNested = 4

var archiveOfChart = regexp.MustCompile(`(^|/)charts/[^/]+\.tgz$`)

// expand unpacks the archives in folders charts/ and drops Chart.lock, whose time of generation
// would be a change: the charts that it names are in the folder.
func expand(all files.Files) (files.Files, error) {
	out := files.Files{}
	out.Put("", all)
	for range maxNested {
		archives := 0
		for _, name := range out.Names() {
			if path.Base(name) == "Chart.lock" {
				delete(out, name)
			}
			if !archiveOfChart.MatchString(name) {
				continue
			}
			archives++
			unpacked, err := files.Unpack(out[name].Data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			delete(out, name)
			out.Put(path.Dir(name), unpacked)
		}
		if archives == 0 {
			return out, nil
		}
	}
	return nil, fmt.Errorf("charts are archives in archives more than %d deep", maxNested)
}

var chartVersion = regexp.MustCompile(`(?m)^version:.*$`)

// The tokens that csctl replaces by versions when it makes a release.
const (
	ClassVersionToken     = "<< .ClusterClassVersion >>"
	AddonVersionToken     = "<< .ClusterAddonVersion >>"
	NodeImageVersionToken = "<< .NodeImageVersion >>"
)

// Tokens returns the tokens that csctl replaces.
func Tokens() []string {
	return []string{ClassVersionToken, AddonVersionToken, NodeImageVersionToken}
}

// Pack returns the folder with all dependencies unpacked in it, which is what csctl can read and
// what a release is made of.
func (s *Stack) Pack() (files.Files, error) {
	out, err := expand(s.Files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Folder, err)
	}
	dependencies, err := s.dependencies(out)
	if err != nil {
		return nil, err
	}
	for _, d := range dependencies {
		chart, err := s.readDependency(d)
		if err != nil {
			return nil, err
		}
		out.Put(d.at, chart)
	}
	if out, err = expand(out); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Folder, err)
	}
	for _, chart := range s.Charts() {
		// csctl sets the version of the other charts itself, and leaves out those of stages.
		if s.IsStaged() && chart != format.ClassFolder {
			name := path.Join(chart, format.ChartFile)
			file := out[name]
			file.Data = chartVersion.ReplaceAllLiteral(file.Data, []byte("version: "+AddonVersionToken))
			out[name] = file
		}
	}
	return out, errors.Join(CheckTokens(out)...)
}

func (s *Stack) readDependency(d dependency) (files.Files, error) {
	if d.locked != nil {
		return s.lock.Read(d.locked)
	}
	chart, err := files.Read(d.folder)
	if err != nil {
		return nil, fmt.Errorf("dependency of %s: %w", filepath.Join(s.Folder, path.Dir(path.Dir(d.at))), err)
	}
	return chart, nil
}

// CheckTokens names each place that csctl would take for a token and does not know. csctl aborts at
// one that has no end, and deletes the text of any other.
func CheckTokens(all files.Files) []error {
	var problems []error
	for _, name := range all.Names() {
		rest, line := string(all[name].Data), 1
		for {
			before, after, found := strings.Cut(rest, "<< ")
			if !found {
				break
			}
			line += strings.Count(before, "\n")
			rest = after
			if !isToken("<< " + after) {
				problems = append(problems, fmt.Errorf("%s:%d: %q must be one of %s, because csctl replaces what begins with \"<< \"",
					name, line, firstLine("<< "+after), strings.Join(Tokens(), ", ")))
			}
		}
	}
	return problems
}

func isToken(text string) bool {
	for _, token := range Tokens() {
		if strings.HasPrefix(text, token) {
			return true
		}
	}
	return false
}

func firstLine(text string) string {
	const longest = 40
	line, _, _ := strings.Cut(text, "\n")
	return strings.ToValidUTF8(line[:min(len(line), longest)], "")
}
