package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// stratosFolder is that of the static pod's files.
const stratosFolder = "/etc/kubernetes/stratos"

// reader follows one page in one shell. Absolute paths are folders of its own root.
type reader struct {
	*site
	root, home string
	shell      *interp.Runner

	// classes are those applied so far, which pools are compared with.
	classes map[string]v1alpha1.NodeClass
	// secrets are the keys of the Secrets made so far.
	secrets map[string][]string
	// checked is the content of the files that were checked.
	checked map[string]string

	// said is what the shell itself complains of.
	said bytes.Buffer
	// mu guards refusals: the commands of a pipe run at once.
	mu sync.Mutex
	// refusals are kept apart from the shell's own errors, which `||`, a pipe or a condition would
	// swallow.
	refusals []error
}

func (g *site) reader(t *testing.T) *reader {
	t.Helper()
	root := t.TempDir()
	r := &reader{site: g, root: root, home: filepath.Join(root, "root"),
		classes: map[string]v1alpha1.NodeClass{}, secrets: map[string][]string{}, checked: map[string]string{}}
	if err := r.bring(); err != nil {
		t.Fatal(err)
	}
	var err error
	r.shell, err = interp.New(
		interp.Env(expand.ListEnviron(g.environment(r.home)...)), interp.Dir(r.home), interp.StdIO(nil, io.Discard, &r.said),
		interp.Params("-e", "-u", "-o", "pipefail"), // -u: a variable that is not set is an error
		interp.CallHandler(r.builtin), interp.ExecHandlers(r.programs), interp.OpenHandler(r.open))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bring is what a reader has before: the folders of a control-plane node that was set up, and a CA
// of her own.
func (r *reader) bring() error {
	for _, folder := range []string{r.home, r.at("/etc/kubernetes/manifests"), r.at(stratosFolder)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	ca, err := os.ReadFile(r.plane.CAFile())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.home, "ca.crt"), ca, 0o600)
}

// at is where an absolute path is for this reader.
func (r *reader) at(path string) string { return filepath.Join(r.root, path) }

// follow does what a block says and checks the files that came of it.
func (r *reader) follow(ctx context.Context, b block) error {
	switch b.language {
	case "sh":
		return errors.Join(r.script(ctx, b.text), r.newFiles(ctx))
	case "yaml", "json":
		return r.document(ctx, b.text)
	}
	return fmt.Errorf("nobody knows what a block in %q is: use sh, yaml or json", b.language)
}

func (r *reader) script(ctx context.Context, text string) error {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return err
	}
	err = r.shell.Run(ctx, file)
	refused, said := errors.Join(r.refusals...), r.said.String()
	r.refusals = nil
	r.said.Reset()
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

var mask = regexp.MustCompile(`^0?[0-7]{3}$`)

// builtin takes umask away from the interpreter, which does not have it.
func (r *reader) builtin(_ context.Context, args []string) ([]string, error) {
	if args[0] != "umask" {
		return args, nil
	}
	if len(args) != 2 || !mask.MatchString(args[1]) {
		return nil, fmt.Errorf("umask %q: want three octal digits", args[1:])
	}
	return []string{"true"}, nil
}

// programs refuses every program that it does not know.
func (r *reader) programs(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		err := r.call(ctx, args)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refusals = append(r.refusals, err)
		return err
	}
}

func (r *reader) call(ctx context.Context, args []string) error {
	shell := interp.HandlerCtx(ctx)
	switch name := args[0]; name {
	case "kubectl":
		return r.runKubectl(ctx, shell, args[1:])
	case "helm":
		return r.runHelm(ctx, shell, args[1:])
	case "stratos":
		return r.exec(ctx, shell, shell.Stdin, shell.Stdout, r.stratos, args[1:]...)
	case "cat", "cp", "mkdir", "mv", "sed":
		return r.exec(ctx, shell, shell.Stdin, shell.Stdout, name, r.inside(args[1:])...)
	default:
		return r.foreign(shell, args)
	}
}

// exec runs a program for real, where the shell is. What it says on its standard error becomes the
// error.
func (r *reader) exec(ctx context.Context, shell interp.HandlerContext, stdin io.Reader, stdout io.Writer, path string,
	args ...string) error {
	var said bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Dir, command.Env = shell.Dir, r.environment(r.home)
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	return nil
}

// inside turns absolute paths into those below the root.
func (r *reader) inside(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = arg
		if strings.HasPrefix(arg, "/") {
			out[i] = r.at(arg)
			if strings.HasSuffix(arg, "/") {
				out[i] += "/"
			}
		}
	}
	return out
}

func (r *reader) open(ctx context.Context, path string, flag int, mode os.FileMode) (io.ReadWriteCloser, error) {
	switch {
	case path == os.DevNull:
	case filepath.IsAbs(path):
		path = r.at(path)
	default:
		path = filepath.Join(interp.HandlerCtx(ctx).Dir, path)
	}
	file, err := os.OpenFile(path, flag, mode)
	if err != nil { // typed, so that the caller does not get a file that is none
		return nil, err
	}
	return file, nil
}

// newFiles checks each file that a block has written, by what is in it.
func (r *reader) newFiles(ctx context.Context) error {
	var errs []error
	err := filepath.WalkDir(r.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") { // what programs keep for themselves
			return fs.SkipDir
		}
		if extension := filepath.Ext(path); entry.IsDir() || extension != ".yaml" && extension != ".json" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || r.checked[path] == string(data) {
			return err
		}
		r.checked[path] = string(data)
		if err := r.document(ctx, string(data)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", strings.TrimPrefix(path, r.root), err))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
