package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// program is one that the rig builds: its name, and where in the checkout the go command is to
// build which package.
type program struct{ name, folder, source string }

func stratosProgram() program { return program{"stratos", ".", "./cmd/stratos"} }

func ec2Program() program { return program{"ec2test", "e2e", "./framework/cmd/ec2test"} }

// upToDate has each program that this process has built: the sources do not change under a test,
// and the go command takes a second to find that out.
var upToDate sync.Map //nolint:gochecknoglobals // the rigs of a process share it

// build compiles a program of the checkout that the working directory is in. It is built in the
// checkout, where the go command finds it up to date the next time: to link it takes longer than
// the start of an API server. It has no debug information, which would double that. The rig gets a
// name of its own for it, under which another build leaves it alone. Not a copy: a file that this
// process has just written may still be open in a child that is being forked, and so be busy.
func build(ctx context.Context, name string, what program, progress io.Writer) (string, error) {
	root, err := checkout()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", what.name, err)
	}
	if progress != nil {
		fmt.Fprintln(progress, "building", what.name)
	}
	linked, mine := filepath.Join(root, "bin", "rig", what.name), filepath.Join(root, "bin", "rig", name, what.name)
	if err := os.MkdirAll(filepath.Dir(linked), 0o755); err != nil {
		return "", err
	}
	lock, err := controlplane.Lock(ctx, linked+".lock")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", what.name, err)
	}
	defer lock.Close()
	if _, built := upToDate.Load(what); !built {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", linked,
			what.source)
		cmd.Dir = filepath.Join(root, what.folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", what.name, err, out)
		}
		upToDate.Store(what, true)
	}
	if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
		return "", err
	}
	return mine, os.Link(linked, mine)
}

// checkout is the root of the repository that the working directory is in: make compiles with
// -trimpath, after which nothing in a binary says where its source lies.
func checkout() (string, error) {
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := working; ; dir = filepath.Dir(dir) {
		file, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(file, []byte("module github.com/stratos-sh/stratos\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is in no checkout of Stratos, whose programs the rig builds", working)
		}
	}
}
