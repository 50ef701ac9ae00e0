package controlplane

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// The module files travel inside the package: with -trimpath nothing in a binary says where its
// source lies, and a module that was fetched into the module cache cannot be built from in place.
//
//go:embed go.mod
var moduleFile string

//go:embed go.sum
var moduleSums string

// errNoVersion means that a module file was edited so that it no longer pins Kubernetes.
var errNoVersion = errors.New("requires no k8s.io/kubernetes version")

var kubernetesRequirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)`)

// Command is one program to build.
type Command struct {
	// Name is that of the built file.
	Name string
	// Package is the import path of its main package.
	Package string
	// LDFlags are the linker's.
	LDFlags string
}

// ModuleFile is a file of a module that is wanted in addition to the programs, such as a CRD; it
// keeps its name.
type ModuleFile struct{ Module, Path string }

// Recipe says what to build from which modules, and under which name of the cache. [Build] has that
// of the control plane; suites that need more processes, such as another autoscaler, bring theirs.
type Recipe struct {
	// Name and Version begin the cache key and are what people are told, for example "kubernetes" and
	// "v1.36.3".
	Name, Version string
	// ModuleFile and ModuleSums are the text of go.mod and go.sum. With -trimpath nothing in a binary
	// says where its source lies, so the programs are built in a folder that has just these two.
	ModuleFile, ModuleSums string
	// Commands are built in this order.
	Commands []Command
	// Files are copied from the module cache.
	Files []ModuleFile
}

// kubernetesRecipe is that of the version which go.mod pins.
func kubernetesRecipe() (Recipe, error) {
	r, err := componentsRecipe(moduleFile, moduleSums)
	if err != nil {
		return Recipe{}, fmt.Errorf("go.mod of e2e/controlplane: %w", err)
	}
	r.Commands = append([]Command{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3", LDFlags: "-s -w"}}, r.Commands...)
	r.Commands = append(r.Commands, kubernetesCommand("kubectl", r.Commands[1].LDFlags))
	return r, nil
}

// componentsRecipe builds what has to be of one minor, from the module file that pins its version.
// The version has to be linked in: a kube-apiserver without it calls itself v0.0.0-master and
// kubectl warns about the skew.
func componentsRecipe(file, sums string) (Recipe, error) {
	match := kubernetesRequirement.FindStringSubmatch(file)
	if match == nil {
		return Recipe{}, errNoVersion
	}
	linked := "-s -w"
	// The first is what the programs say about themselves, the second what their clients put into the
	// user agent.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		linked += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, match[1],
			match[2], match[3])
	}
	return Recipe{Name: "kubernetes", Version: match[1], ModuleFile: file, ModuleSums: sums, Commands: []Command{
		kubernetesCommand("kube-apiserver", linked),
		kubernetesCommand("kube-controller-manager", linked),
		kubernetesCommand("kube-scheduler", linked),
	}}, nil
}

func kubernetesCommand(name, linked string) Command {
	return Command{Name: name, Package: "k8s.io/kubernetes/cmd/" + name, LDFlags: linked}
}

// Key is the name of the recipe's folder in the cache. It changes with everything that changes what
// is built. The Go version is that of the running program, not of the go command in PATH: so a
// machine without a go command can still use what was built before.
func (r Recipe) Key() string {
	parts := []string{r.ModuleFile, r.ModuleSums, runtime.Version()}
	for _, c := range r.Commands {
		parts = append(parts, c.Name, c.Package, c.LDFlags)
	}
	for _, f := range r.Files {
		parts = append(parts, f.Module, f.Path)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("%s-%s-%s-%s-%s", r.Name, r.Version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum[:])[:10])
}

// Binaries are the absolute paths of the built programs.
type Binaries struct {
	Dir               string
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
	Kubectl           string
	// KubernetesVersion is that of all but etcd, for example "v1.36.3".
	KubernetesVersion string
}

func binariesIn(dir, version string) Binaries {
	return Binaries{
		Dir:               dir,
		Etcd:              filepath.Join(dir, "etcd"),
		APIServer:         filepath.Join(dir, "kube-apiserver"),
		ControllerManager: filepath.Join(dir, "kube-controller-manager"),
		Scheduler:         filepath.Join(dir, "kube-scheduler"),
		Kubectl:           filepath.Join(dir, "kubectl"),
		KubernetesVersion: version,
	}
}
