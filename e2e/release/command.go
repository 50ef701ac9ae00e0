package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// command is a program that is run in a folder, with additions to the environment.
type command struct {
	dir   string
	env   []string
	words []string
}

// run returns the standard output. What the program prints to standard error becomes part of the
// error.
func (c command) run(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, c.words[0], c.words[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(c.words, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// tool is a tool of the module file go.<name>.mod in the root.
func tool(root, name string, args ...string) command {
	words := append([]string{"go", "tool", "-modfile=go." + name + ".mod", name}, args...)
	return command{dir: root, words: words}
}
