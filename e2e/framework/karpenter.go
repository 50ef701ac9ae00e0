package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// UserKarpenter is Karpenter's identity, so that an audit log tells who wrote what.
const UserKarpenter = "karpenter"

const karpenterModule = "sigs.k8s.io/karpenter"

var (
	errNoKarpenter       = errors.New("e2e/karpenter/go.mod requires no version of " + karpenterModule)
	karpenterRequirement = regexp.MustCompile(`(?m)^\s*(?:require )?sigs\.k8s\.io/karpenter (v\S+)`)
)

// Karpenter is where what was built of it lies.
type Karpenter struct {
	Version string
	// Path is that of the program, with the provider that needs no cloud: the instances that it
	// launches are Node objects alone.
	Path string
	// CRDs are the paths of the definitions' files.
	CRDs []string
}

// BuildKarpenter builds Karpenter into the cache of the control plane's binaries unless it is
// there. progress may be nil.
func BuildKarpenter(ctx context.Context, progress io.Writer) (Karpenter, error) {
	recipe, err := karpenterRecipe()
	if err != nil {
		return Karpenter{}, err
	}
	dir, err := recipe.Build(ctx, progress)
	if err != nil {
		return Karpenter{}, err
	}
	k := Karpenter{Version: recipe.Version, Path: filepath.Join(dir, recipe.Commands[0].Name)}
	for _, f := range recipe.Files {
		k.CRDs = append(k.CRDs, filepath.Join(dir, filepath.Base(f.Path)))
	}
	return k, nil
}

func karpenterRecipe() (controlplane.Recipe, error) {
	root, err := checkout()
	if err != nil {
		return controlplane.Recipe{}, err
	}
	file, err := os.ReadFile(filepath.Join(root, "e2e", "karpenter", "go.mod"))
	if err != nil {
		return controlplane.Recipe{}, err
	}
	sums, err := os.ReadFile(filepath.Join(root, "e2e", "karpenter", "go.sum"))
	if err != nil {
		return controlplane.Recipe{}, err
	}
	match := karpenterRequirement.FindSubmatch(file)
	if match == nil {
		return controlplane.Recipe{}, errNoKarpenter
	}
	r := controlplane.Recipe{
		Name: "karpenter", Version: string(match[1]), ModuleFile: string(file), ModuleSums: string(sums),
		Commands: []controlplane.Command{{Name: "karpenter", Package: karpenterModule + "/kwok", LDFlags: "-s -w"}},
	}
	for _, path := range []string{
		"pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
		"pkg/apis/crds/karpenter.sh_nodeclaims.yaml",
		"pkg/apis/crds/karpenter.sh_nodeoverlays.yaml",
		"pkg/apis/crds/karpenter.sh_nodepools.yaml",
		"kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
	} {
		r.Files = append(r.Files, controlplane.ModuleFile{Module: karpenterModule, Path: path})
	}
	return r, nil
}

// StartKarpenter builds Karpenter if need be, installs its definitions and starts it, with its own
// defaults but for what a single process on a shared machine needs. args come last.
func (r *Rig) StartKarpenter(ctx context.Context, args ...string) (*controlplane.Process, error) {
	k, err := BuildKarpenter(ctx, r.options.Progress)
	if err != nil {
		return nil, err
	}
	for _, path := range k.CRDs {
		if err := r.defineFile(ctx, path); err != nil {
			return nil, fmt.Errorf("install Karpenter's definitions: %s: %w", filepath.Base(path), err)
		}
	}
	kubeconfig, err := r.ControlPlane.UserKubeconfig(UserKarpenter, "system:masters")
	if err != nil {
		return nil, err
	}
	var ports [2]string
	for i := range ports {
		address, err := controlplane.FreeAddress()
		if err != nil {
			return nil, err
		}
		if _, ports[i], err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	return r.start(ctx, controlplane.Companion{
		Name: "karpenter", Path: k.Path, URL: "http://127.0.0.1:" + ports[0], ReadyPath: "/readyz",
		Args: append([]string{"--health-probe-port=" + ports[0], "--metrics-port=" + ports[1],
			"--disable-leader-election=true",
			"--log-level=debug"}, args...),
		Env: []string{"KUBECONFIG=" + kubeconfig}, // it knows no flag for it
	})
}
