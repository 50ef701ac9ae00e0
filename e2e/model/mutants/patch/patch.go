// Package patch reads and applies the planted bugs of the model.
package patch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Patch is one planted bug.
type Patch struct {
	Name, File string
	// Breaks are the invariants, one of which is to be found broken.
	Breaks []string
	// What says what the bug is, in a sentence.
	What string
	// Seed is that of a world in which it was found before, 0 where none is known.
	Seed uint64
	// Bursts: it is looked for in worlds of ReplicaSets whose pods are still to come.
	Bursts bool
}

const (
	breaks = "# Breaks: "
	seed   = "# Seed: "
	worlds = "# Worlds: bursts"
)

// changed is a line of a patch that names a file which it changes.
var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// List reads the headers of the patches of a folder, sorted by name.
func List(folder string) ([]Patch, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var out []Patch
	for _, file := range files {
		p, err := read(file)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func read(file string) (Patch, error) {
	p := Patch{Name: strings.TrimSuffix(filepath.Base(file), ".patch")}
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	if p.File, err = filepath.Abs(file); err != nil {
		return p, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "# ") {
			break
		}
		if said, ok := strings.CutPrefix(line, breaks); ok {
			p.Breaks = strings.Split(said, ", ")
		} else if said, ok := strings.CutPrefix(line, seed); ok {
			if p.Seed, err = strconv.ParseUint(said, 10, 64); err != nil {
				return p, fmt.Errorf("%s: %w", file, err)
			}
		} else if line == worlds {
			p.Bursts = true
		} else {
			p.What = strings.TrimSpace(p.What + " " + strings.TrimPrefix(line, "# "))
		}
	}
	if len(p.Breaks) == 0 || p.What == "" {
		return p, fmt.Errorf("%s does not say %q with the promises that it breaks, and in a sentence what it is", file,
			breaks)
	}
	return p, nil
}

// Remember writes the seed of a world in which the bug was found into the patch.
func (p Patch) Remember(found uint64) error {
	text, err := os.ReadFile(p.File)
	if err != nil {
		return err
	}
	var out []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, seed) {
			out = append(out, line)
		}
		if strings.HasPrefix(line, breaks) {
			out = append(out, seed+strconv.FormatUint(found, 10))
		}
	}
	return os.WriteFile(p.File, []byte(strings.Join(out, "\n")), 0o644) //nolint:gosec // a source
}

// Plant writes the files that the patch changes into a folder, as they are with it, and returns
// their paths below root. root is not changed.
func Plant(ctx context.Context, root, folder, file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, m := range changed.FindAllStringSubmatch(string(text), -1) {
		source, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(folder, m[1])
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, source, 0o600); err != nil {
			return nil, err
		}
		files = append(files, m[1])
	}
	command := exec.CommandContext(ctx, "git", "apply", "-C1", file)
	command.Dir = folder
	// The folder may lie in a repository: paths count from the folder itself all the same.
	command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("does not apply: %w: %s", err, out)
	}
	return files, nil
}
