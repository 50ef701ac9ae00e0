package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Errors of [Build] that a caller can do something about; compare with errors.Is.
var (
	// ErrNoGo means that the binaries are not built yet and there is no go command to build them with.
	ErrNoGo = errors.New("the go command is not in PATH; it is needed once to build the programs that tests run")
	// ErrModulesUnreachable means that a module is neither in the module cache nor could it be
	// fetched.
	ErrModulesUnreachable = errors.New("the Go modules cannot be fetched; check the network, GOPROXY and HTTPS_PROXY")
)

// fetchFailure matches what the go command prints when a module proxy does not answer.
var fetchFailure = regexp.MustCompile(
	`dial tcp|no such host|proxyconnect|i/o timeout|TLS handshake|module lookup disabled|connection refused|connection reset|server misbehaving|unrecognized import path`,
)

const (
	progressInterval = 3 * time.Second
	lockInterval     = 200 * time.Millisecond
)

// Build returns the binaries of the control plane and builds them first if this machine has none
// for this version yet. They stay in ${XDG_CACHE_HOME:-$HOME/.cache}/stratos/<key> (350 MiB), where
// the key names the Kubernetes version, the platform and a hash of what is built. Of several
// processes that call it at once, one builds and the others wait.
//
// It needs the go command, and the module proxy unless the module cache has everything. The
// caller's GOFLAGS, GOWORK, GOOS, GOARCH and CGO_ENABLED have no influence. progress gets one line
// every three seconds while it builds and may be nil.
//
// Errors wrap [ErrNoGo], [ErrModulesUnreachable], the context's error or the tail of the go
// command's output.
func Build(ctx context.Context, progress io.Writer) (Binaries, error) {
	r, err := kubernetesRecipe()
	if err != nil {
		return Binaries{}, err
	}
	dir, err := r.Build(ctx, progress)
	if err != nil {
		return Binaries{}, err
	}
	return binariesIn(dir, r.Version), nil
}

// Build does for any recipe what the function [Build] does for the control plane, and returns the
// folder with the programs and files.
func (r Recipe) Build(ctx context.Context, progress io.Writer) (string, error) {
	if progress == nil {
		progress = io.Discard
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, r.Key())
	if r.complete(target) {
		return target, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	lock, err := r.lock(ctx, target+".lock", progress)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if r.complete(target) { // the process we waited for has built it
		return target, nil
	}
	if err := r.buildInto(ctx, target, progress); err != nil {
		return "", fmt.Errorf("build %s %s: %w", r.Name, r.Version, err)
	}
	return target, nil
}

// cacheFolder does not use os.UserCacheDir, which on macOS is a folder with a blank in its name
// that people do not look into.
func cacheFolder() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stratos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(home, ".cache", "stratos"), nil
}

// complete looks at each file, although folders appear whole, because cache cleaners delete single
// files.
func (r Recipe) complete(dir string) bool {
	for _, c := range r.Commands {
		if info, err := os.Stat(filepath.Join(dir, c.Name)); err != nil || !info.Mode().IsRegular() ||
			info.Mode()&0o100 == 0 {
			return false
		}
	}
	for _, f := range r.Files {
		if info, err := os.Stat(filepath.Join(dir, path.Base(f.Path))); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// lock takes the recipe's lock and says so while another process builds it.
func (r Recipe) lock(ctx context.Context, path string, progress io.Writer) (*fileLock, error) {
	started, lastLine := time.Now(), time.Time{}
	lock, err := waitForLock(ctx, path, func() {
		if time.Since(lastLine) >= progressInterval {
			lastLine = time.Now()
			fmt.Fprintf(progress, "%s: another process builds it, waiting for %s\n", r.Name, since(started))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("lock the cache of %s: %w", r.Name, err)
	}
	return lock, nil
}

// buildInto fills a new folder beside the target and renames it, so that a build that dies half-way
// leaves nothing that looks built. The caller holds the lock.
func (r Recipe) buildInto(ctx context.Context, target string, progress io.Writer) error {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		return ErrNoGo
	}
	if err := removeAll(target + ".tmp-*"); err != nil { // of builders that were killed
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(target), filepath.Base(target)+".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	module, out := filepath.Join(work, "module"), filepath.Join(work, "bin")
	if err := r.writeModule(module); err != nil {
		return err
	}
	started := time.Now()
	for i, c := range r.Commands {
		step := buildStep{command: c, goCommand: goCommand, module: module, output: filepath.Join(out, c.Name),
			label: fmt.Sprintf("%s: building %s (%d of %d)", r.Name, c.Name, i+1, len(r.Commands)), started: started,
			progress: progress}
		if err := step.run(ctx); err != nil {
			return err
		}
	}
	if err := r.copyFiles(ctx, goCommand, module, out); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: built %s in %s\n", r.Name, r.Version, since(started))
	if err := os.RemoveAll(target); err != nil { // an incomplete one would be in the way of the rename
		return err
	}
	return os.Rename(out, target)
}

func (r Recipe) writeModule(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(r.ModuleFile), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), []byte(r.ModuleSums), 0o644)
}

// copyFiles comes after the builds, which have fetched the modules.
func (r Recipe) copyFiles(ctx context.Context, goCommand, module, out string) error {
	for _, f := range r.Files {
		cmd := exec.CommandContext(ctx, goCommand, "list", "-m", "-f", "{{.Dir}}", f.Module)
		cmd.Dir, cmd.Env = module, buildEnvironment(os.Environ())
		dir, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("find the folder of module %s: %w", f.Module, err)
		}
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, path.Base(f.Path)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func removeAll(pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// buildStep is one call of the go command.
type buildStep struct {
	command   Command
	goCommand string
	module    string
	output    string
	label     string
	started   time.Time
	progress  io.Writer
}

func (s buildStep) run(ctx context.Context) error {
	cmd := exec.Command(s.goCommand, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", s.command.LDFlags, "-o",
		s.output, s.command.Package)
	cmd.Dir = s.module
	cmd.Env = buildEnvironment(os.Environ())
	output := &buildOutput{}
	cmd.Stderr = output
	cmd.WaitDelay = 5 * time.Second // a compiler that outlives a killed go command keeps the pipe open
	build, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("start the go command: %w", err)
	}
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	fmt.Fprintln(s.progress, s.label)
	for {
		select {
		case <-ctx.Done():
			build.signalGroup(os.Kill)
			<-build.done
			return ctx.Err()
		case <-tick.C:
			fmt.Fprintf(s.progress, "%s, %d packages compiled, %s\n", s.label, output.packages(), since(s.started))
		case <-build.done:
			return s.explain(build.err, output.tail())
		}
	}
}

func (s buildStep) explain(err error, tail string) error {
	switch {
	case err == nil:
		return nil
	case fetchFailure.MatchString(tail):
		return fmt.Errorf("%s: %w (GOPROXY=%q)\n%s", s.command.Name, ErrModulesUnreachable, os.Getenv("GOPROXY"), tail)
	default:
		return fmt.Errorf("go build %s: %w\n%s", s.command.Package, err, tail)
	}
}

// buildEnvironment is the caller's, less what would change the binaries or refuse the build:
// -mod=vendor or -mod=mod in GOFLAGS, a workspace that does not know this module, another
// platform's GOOS. GOFLAGS is set rather than cleared, because an empty value falls back to
// `go env -w`.
func buildEnvironment(inherited []string) []string {
	fixed := []string{"GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "GO111MODULE=on", "GOOS=" + runtime.GOOS,
		"GOARCH=" + runtime.GOARCH}
	kept := make([]string, 0, len(inherited)+len(fixed))
	for _, entry := range inherited {
		name, _, _ := strings.Cut(entry, "=")
		if name != "PWD" { // it would name the caller's folder
			kept = append(kept, entry)
		}
	}
	return append(kept, fixed...) // of equal names os/exec takes the last
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
