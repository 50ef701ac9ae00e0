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

// The module files travel inside the package: with -trimpath nothing in a binary says where its source lies, and a module that was
// fetched into the module cache cannot be built from in place.
//
//go:embed go.mod
var moduleFile string

//go:embed go.sum
var moduleSums string

// errNoVersion means that go.mod was edited so that it no longer pins Kubernetes.
var errNoVersion = errors.New("go.mod of e2e/controlplane requires no k8s.io/kubernetes version")

var kubernetesRequirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)`)

// binary is one program of the control plane.
type binary struct {
	name    string
	pkg     string
	ldflags string
}

// recipe says what to build, and under which name of the cache.
type recipe struct {
	version  string
	key      string
	binaries []binary
}

// newRecipe reads the Kubernetes version from the embedded go.mod. The version has to be linked in: a kube-apiserver without it
// calls itself v0.0.0-master and kubectl warns about the skew.
func newRecipe() (recipe, error) {
	match := kubernetesRequirement.FindStringSubmatch(moduleFile)
	if match == nil {
		return recipe{}, errNoVersion
	}
	linked := "-s -w"
	// The first is what the programs say about themselves, the second what their clients put into the user agent.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		linked += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, match[1], match[2], match[3])
	}
	r := recipe{version: match[1], binaries: []binary{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", ldflags: "-s -w"},
		{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", ldflags: linked},
		{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", ldflags: linked},
		{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler", ldflags: linked},
		{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl", ldflags: linked},
	}}
	r.key = r.cacheKey()
	return r, nil
}

// cacheKey changes with everything that changes the binaries. The Go version is that of the running program, not of the go command in
// PATH: so a machine without a go command can still use what was built before.
func (r recipe) cacheKey() string {
	parts := []string{moduleFile, moduleSums, runtime.Version()}
	for _, b := range r.binaries {
		parts = append(parts, b.name, b.pkg, b.ldflags)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("kubernetes-%s-%s-%s-%s", r.version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum[:])[:10])
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

func (r recipe) binariesIn(dir string) Binaries {
	return Binaries{
		Dir:               dir,
		Etcd:              filepath.Join(dir, "etcd"),
		APIServer:         filepath.Join(dir, "kube-apiserver"),
		ControllerManager: filepath.Join(dir, "kube-controller-manager"),
		Scheduler:         filepath.Join(dir, "kube-scheduler"),
		Kubectl:           filepath.Join(dir, "kubectl"),
		KubernetesVersion: r.version,
	}
}
