package controlplane

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Files of these names, because a folder with a go.mod is a module of its own, and from another
// module nothing can be embedded.
//
//go:embed minors/*.mod minors/*.sum
var minorFiles embed.FS

// ErrNoMinor means that no module file pins a version of the Kubernetes minor; compare with
// errors.Is.
var ErrNoMinor = errors.New("no module file for this Kubernetes minor")

// BeforeOldest is the minor before the oldest of [Minors]. Its API server takes Stratos, its
// scheduler does not do what Stratos needs.
const BeforeOldest = "1.33"

// Minors are the Kubernetes minors whose schedulers Stratos supports, such as "1.34", oldest first.
// The last is that of [Build]. To add an older one, put its module file and checksums into the
// folder minors; docs/development.md says how.
func Minors() []string {
	var minors []string
	entries, _ := minorFiles.ReadDir("minors") // embedded, so it is there
	for _, entry := range entries {
		if minor, found := strings.CutSuffix(entry.Name(), ".mod"); found && minor != BeforeOldest {
			minors = append(minors, minor)
		}
	}
	slices.Sort(minors)
	return append(minors, newestMinor())
}

func newestMinor() string {
	match := kubernetesRequirement.FindStringSubmatch(moduleFile)
	if match == nil {
		return "" // kubernetesRecipe says so
	}
	return match[2] + "." + match[3]
}

// BuildMinor does for one of [Minors] or [BeforeOldest], such as "1.34", what [Build] does for the
// newest, which an empty minor means too. Of an older minor it builds kube-apiserver,
// kube-controller-manager and kube-scheduler (256 MiB); etcd and kubectl are those of Build.
//
// Errors are those of Build, or wrap [ErrNoMinor].
func BuildMinor(ctx context.Context, minor string, progress io.Writer) (Binaries, error) {
	if minor == "" || minor == newestMinor() {
		return Build(ctx, progress)
	}
	r, err := minorRecipe(minor)
	if err != nil {
		return Binaries{}, err
	}
	newest, err := Build(ctx, progress)
	if err != nil {
		return Binaries{}, err
	}
	dir, err := r.Build(ctx, progress)
	if err != nil {
		return Binaries{}, err
	}
	binaries := binariesIn(dir, r.Version)
	binaries.Etcd, binaries.Kubectl = newest.Etcd, newest.Kubectl
	return binaries, nil
}

// VersionOf is the Kubernetes version, such as "v1.34.4", that [BuildMinor] builds for a minor; an
// empty one means the newest. Errors are those of an unknown minor, which wrap [ErrNoMinor].
func VersionOf(minor string) (string, error) {
	r, err := kubernetesRecipe()
	if minor != "" && minor != newestMinor() {
		r, err = minorRecipe(minor)
	}
	return r.Version, err
}

func minorRecipe(minor string) (Recipe, error) {
	if known := append([]string{BeforeOldest}, Minors()...); !slices.Contains(known, minor) {
		return Recipe{}, fmt.Errorf("%w: %q; there are %s", ErrNoMinor, minor, strings.Join(known, ", "))
	}
	file, err := minorFiles.ReadFile(path.Join("minors", minor+".mod"))
	if err != nil {
		return Recipe{}, err
	}
	sums, err := minorFiles.ReadFile(path.Join("minors", minor+".sum"))
	if err != nil {
		return Recipe{}, err
	}
	r, err := componentsRecipe(string(file), string(sums))
	if err != nil {
		return Recipe{}, fmt.Errorf("minors/%s.mod of e2e/controlplane: %w", minor, err)
	}
	return r, nil
}
