package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
)

// LockFile lists the charts of others, beside the folder providers/.
const LockFile = "charts.lock"

// Lock is charts.lock: the charts of others on which stacks depend and which are not in the tree.
type Lock struct {
	// Folder is where they are fetched to, from the folder of charts.lock.
	Folder string        `json:"folder"`
	Charts []LockedChart `json:"charts"`
	root   string
}

// LockedChart is a chart inside a Go module.
type LockedChart struct {
	Name string `json:"name"`
	// Module and Version are those of the Go module, Path is the chart's folder in it.
	Module  string `json:"module"`
	Version string `json:"version"`
	Path    string `json:"path"`
	// Digest is golang.org/x/mod/sumdb/dirhash's of the chart's files.
	Digest string `json:"digest"`
	// Exclude are files that a stack leaves out, by their path in the chart.
	Exclude []string `json:"exclude,omitempty"`
}

// content is what the chart counts by.
func (c *LockedChart) content() string {
	return strings.Join(append([]string{c.Digest}, c.Exclude...), " without ")
}

// ReadLock reads charts.lock in a folder. Without the file there are no such charts.
func ReadLock(root string) (*Lock, error) {
	file := filepath.Join(root, LockFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return &Lock{root: root}, nil
	}
	if err != nil {
		return nil, err
	}
	l := &Lock{root: root}
	if err := yaml.UnmarshalStrict(text, l); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var problems []error
	if l.Folder == "" {
		problems = append(problems, fmt.Errorf("%s: folder must be set: it says where the charts are fetched to", file))
	}
	for i, c := range l.Charts {
		for _, field := range []struct{ name, value string }{
			{"name", c.Name}, {"module", c.Module}, {"version", c.Version}, {"path", c.Path}} {
			if field.value == "" {
				problems = append(problems, fmt.Errorf("%s: charts[%d].%s must be set", file, i, field.name))
			}
		}
		if !strings.HasPrefix(c.Digest, "h1:") {
			problems = append(problems, fmt.Errorf("%s: charts[%d].digest %q must begin with h1", file, i, c.Digest))
		}
	}
	return l, errors.Join(problems...)
}

func lockOf(folder string) (*Lock, error) {
	root, err := rootOf(folder)
	if root == "" {
		return &Lock{}, err
	}
	return ReadLock(root)
}

// FolderOf is where the chart is fetched to.
func (l *Lock) FolderOf(c *LockedChart) string { return filepath.Join(l.root, l.Folder, c.Name) }

// at returns the chart that is fetched to the folder, nil where it is none of them.
func (l *Lock) at(folder string) *LockedChart {
	for i := range l.Charts {
		if l.FolderOf(&l.Charts[i]) == folder {
			return &l.Charts[i]
		}
	}
	return nil
}

// Read returns the files of a fetched chart without the excluded ones, if they have the digest of
// charts.lock.
func (l *Lock) Read(c *LockedChart) (files.Files, error) {
	folder := l.FolderOf(c)
	found, err := files.Read(folder)
	if err != nil {
		return nil, fmt.Errorf("chart %s is not fetched: run stratos stack charts %s: %w", c.Name, l.root, err)
	}
	if err := CheckDigest(c, folder, found); err != nil {
		return nil, err
	}
	for _, name := range c.Exclude {
		if _, there := found[name]; !there {
			return nil, fmt.Errorf("%s: chart %s: exclude %s must be a file of the chart", filepath.Join(l.root, LockFile), c.Name, name)
		}
		delete(found, name)
	}
	return found, nil
}

// CheckDigest is an error where the files are not those of charts.lock.
func CheckDigest(c *LockedChart, folder string, found files.Files) error {
	digest, err := found.Hash()
	if err == nil && digest != c.Digest {
		err = fmt.Errorf("chart %s in %s has digest %s, and %s in %s", c.Name, folder, digest, c.Digest, LockFile)
	}
	return err
}
