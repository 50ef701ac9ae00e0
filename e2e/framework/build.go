package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// build compiles a program from the checkout that this source file belongs to. It is built in the
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

// checkout is the root of the repository that this source file belongs to.
func checkout() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the rig was compiled with -trimpath, so it does not know where the sources are")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file))), nil
}
