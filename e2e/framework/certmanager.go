package framework

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// UserCertManager is cert-manager's identity, so that an audit log tells who wrote what.
const UserCertManager = "cert-manager"

const certManagerModule = "github.com/cert-manager/cert-manager"

var certManagerRequirement = regexp.MustCompile(`(?m)^\s*github\.com/cert-manager/cert-manager (v\S+)`)

// StartCertManager builds cert-manager's controllers if need be, installs its definitions and
// starts it. It runs until Close.
func (r *Rig) StartCertManager(ctx context.Context) (*controlplane.Process, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	module := filepath.Join(root, "e2e", "certmanager")
	path, err := buildCertManager(ctx, module, filepath.Dir(filepath.Dir(r.ControlPlane.KubectlPath())),
		r.options.Progress)
	if err != nil {
		return nil, err
	}
	if err := r.installCertManager(ctx, module); err != nil {
		return nil, fmt.Errorf("install cert-manager's definitions: %w", err)
	}
	kubeconfig, err := r.ControlPlane.UserKubeconfig(UserCertManager, "system:masters")
	if err != nil {
		return nil, err
	}
	address, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	return r.start(ctx, controlplane.Companion{
		Name: "cert-manager", Path: path, URL: "http://" + address, ReadyPath: "/readyz",
		Args: []string{"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=" + address, "-v=2"},
	})
}

// buildCertManager builds the program of the module into a folder of the cache that is named by its
// version and sources, unless it is there. Two processes may do so at once: go's own cache spares
// most of the double work, and the renamed folder is whole.
func buildCertManager(ctx context.Context, module, cache string, progress io.Writer) (string, error) {
	key, err := certManagerKey(module)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, key, "certmanager")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if progress != nil {
		fmt.Fprintln(progress, "building cert-manager's controllers; the first time takes minutes")
	}
	work, err := os.MkdirTemp(cache, key+".tmp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	built := filepath.Join(work, "certmanager")
	if _, err := goCommand(ctx, module, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built,
		"."); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(built, path)
}

// certManagerKey changes with everything that changes the program.
func certManagerKey(module string) (string, error) {
	sources, err := filepath.Glob(filepath.Join(module, "*.go")) // sorted
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00", runtime.Version())
	version := ""
	for _, path := range append(sources, filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s\x00%s\x00", filepath.Base(path), text)
		if match := certManagerRequirement.FindSubmatch(text); match != nil && filepath.Base(path) == "go.mod" {
			version = string(match[1])
		}
	}
	if version == "" {
		return "", fmt.Errorf("%s/go.mod requires no version of %s", module, certManagerModule)
	}
	return fmt.Sprintf("cert-manager-%s-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH,
		hex.EncodeToString(sum.Sum(nil))[:10]), nil
}

// installCertManager applies the definitions that lie in cert-manager's own module and waits until
// they are served.
func (r *Rig) installCertManager(ctx context.Context, module string) error {
	printed, err := goCommand(ctx, module, "mod", "download", "-json", certManagerModule)
	if err != nil {
		return err
	}
	downloaded := struct{ Dir string }{}
	if err := json.Unmarshal(printed, &downloaded); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(downloaded.Dir, "deploy", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no file in %s/deploy/crds", downloaded.Dir)
	}
	for _, path := range files {
		if err := r.defineFile(ctx, path); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// goCommand runs it in the module's folder, whatever workspace or flags the caller has.
func goCommand(ctx context.Context, module string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "PWD="+module)
	out, err := cmd.Output()
	if failed := (&exec.ExitError{}); errors.As(err, &failed) {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
	}
	return out, err
}
