package nodeimage

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goPackages are the programs that are built from their Go modules in the version of programs.txt.
// runc is the one that needs a C compiler.
func goPackages() map[string][]string {
	const (
		containerd = "github.com/containerd/containerd/v2/cmd/"
		plugins    = "github.com/containernetworking/plugins/plugins/"
	)
	return map[string][]string{
		"containerd":  {containerd + "containerd", containerd + "containerd-shim-runc-v2", containerd + "ctr"},
		"runc":        {"github.com/opencontainers/runc"},
		"cni-plugins": {plugins + "main/loopback", plugins + "ipam/host-local", plugins + "meta/portmap", plugins + "meta/bandwidth"},
	}
}

// built returns the folder with the executables of a program.
func built(t *testing.T, p program) string {
	t.Helper()
	return cached(t, "nodeimage-"+p.name+"-"+p.version, func(folder string) error {
		for _, each := range goPackages()[p.name] {
			install := exec.Command("go", "install", "-p", "1", "-trimpath", "-ldflags=-s -w", each+"@"+p.version)
			cgo := "0"
			if p.name == "runc" {
				cgo = "1"
			}
			install.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED="+cgo)
			if _, err := run(install); err != nil {
				return err
			}
		}
		return nil
	})
}

const controlplane = "../../controlplane"

// nodePrograms returns the folder with a kubelet and a kubeadm of the stack's version, which
// e2e/controlplane pins: the newest minor in node.mod, the others in minors.
func nodePrograms(t *testing.T, i image) string {
	t.Helper()
	minor := strings.TrimPrefix(i.kubernetes[:strings.LastIndex(i.kubernetes, ".")], "v")
	pinned, err := os.ReadFile(filepath.Join(controlplane, "minors", minor+".mod"))
	if os.IsNotExist(err) {
		build := exec.Command("go", "run", "./cmd/controlplane", "build", "-node")
		build.Dir = controlplane
		out, err := run(build)
		if err != nil {
			t.Fatalf("NOT RUN: kubelet: %v", err)
		}
		return strings.TrimSpace(out)
	}
	if !slices.Contains(strings.Fields(string(pinned)), i.kubernetes) {
		t.Fatalf("minors/%s.mod of e2e/controlplane does not require k8s.io/kubernetes %s, error %v", minor, i.kubernetes, err)
	}
	return cached(t, "nodeimage-kubernetes-"+i.kubernetes, func(folder string) error {
		// Of the kubelet's modules the file has no checksums: the go command adds them to a copy.
		modules := filepath.Join(t.TempDir(), "go.mod")
		for _, extension := range []string{".mod", ".sum"} {
			text := readFile(t, filepath.Join(controlplane, "minors", minor+extension))
			if err := os.WriteFile(strings.TrimSuffix(modules, ".mod")+extension, []byte(text), 0o600); err != nil {
				return err
			}
		}
		build := exec.Command("go", "build", "-p", "1", "-mod=mod", "-modfile="+modules, "-trimpath",
			"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion="+i.kubernetes, "-o", folder+"/",
			"k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kubeadm")
		build.Dir = controlplane
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		_, err := run(build)
		return err
	})
}

// standIn plays a program of which nothing but its place and its version is tested.
func standIn(p program) []byte {
	return []byte("#!/bin/sh\necho '" + p.name + "/" + strings.TrimPrefix(p.version, "v") + "'\n")
}

// executables are those of a program as its archive has them, by their path there.
func executables(t *testing.T, i image, p program) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, each := range goPackages()[p.name] {
		in := map[string]string{"containerd": "bin"}[p.name]
		all[path.Join(in, path.Base(each))] = []byte(readFile(t, filepath.Join(built(t, p), path.Base(each))))
	}
	switch p.name {
	case "kubelet", "kubeadm":
		all[p.name] = []byte(readFile(t, filepath.Join(nodePrograms(t, i), p.name)))
	case "ecr-credential-provider":
		all[p.name] = standIn(p)
	case "aws-cli":
		all["aws/dist/aws"] = standIn(p)
		all["aws/dist/awscli/data/ac.index"] = []byte("x")
	}
	return all
}

// mirror is a folder with every program at its address, and the checksums of its files by program.
func mirror(t *testing.T, i image) (folder string, checksums map[string]string) {
	t.Helper()
	folder, checksums = t.TempDir(), map[string]string{}
	for _, p := range i.programs {
		data := pack(t, p.address, executables(t, i, p))
		file := filepath.Join(folder, strings.TrimPrefix(p.address, "https://"))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		checksums[p.name] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return folder, checksums
}

// pack makes the file of an address: an archive by its suffix, or the one executable.
func pack(t *testing.T, address string, all map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch path.Ext(address) {
	case ".gz", ".tgz":
		compressed := gzip.NewWriter(&out)
		archive := tar.NewWriter(compressed)
		for name, data := range all {
			if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		if err := compressed.Close(); err != nil {
			t.Fatal(err)
		}
	case ".zip":
		archive := zip.NewWriter(&out)
		for name, data := range all {
			header := &zip.FileHeader{Name: name}
			header.SetMode(0o755)
			file, err := archive.CreateHeader(header)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		if len(all) != 1 {
			t.Fatalf("%s is no archive and has %d files", address, len(all))
		}
		for _, data := range all {
			out.Write(data)
		}
	}
	return out.Bytes()
}
