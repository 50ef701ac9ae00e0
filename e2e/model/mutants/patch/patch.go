// Package patch reads the planted bugs of the model.
package patch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Patch is one planted bug.
type Patch struct {
	Name, File string
	// Breaks are the promises, one of which is to be found broken.
	Breaks []string
}

// List reads the headers of the patches of a folder, sorted by name.
func List(folder string) ([]Patch, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var out []Patch
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		header, _, _ := strings.Cut(string(text), "\n")
		said, ok := strings.CutPrefix(header, "# Breaks: ")
		if !ok {
			return nil, fmt.Errorf("%s does not begin with \"# Breaks: \" and the promises that it breaks", file)
		}
		at, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		out = append(out, Patch{Name: strings.TrimSuffix(filepath.Base(file), ".patch"), File: at, Breaks: strings.Split(said, ", ")})
	}
	return out, nil
}

// Apply applies a patch to the tree at root, with git's options such as --check or -R. It returns what git said.
func Apply(ctx context.Context, root, file string, options ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append(append([]string{"apply", "-C1"}, options...), file)...)
	command.Dir = root
	// In a tree that is no repository, or a part of one, paths count from the folder itself.
	command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(root))
	out, err := command.CombinedOutput()
	return string(out), err
}
