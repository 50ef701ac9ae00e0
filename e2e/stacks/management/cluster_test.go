// Package management runs Cluster API's managers and the cluster-stack operator next to a real API
// server, on what `stratos stack create` makes of the stacks of the project.
package management

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// The time that a wait takes at most. Most end within seconds.
const (
	hang    = 10 * time.Minute
	timeout = "--timeout=300s"
)

// object is a Kubernetes object of any kind.
type object = map[string]any

// cluster is a control plane and the kubectl for it, in a namespace.
type cluster struct {
	plane           *controlplane.ControlPlane
	home, namespace string
}

func newCluster(t *testing.T, namespace string, apiServerArgs ...string) *cluster {
	t.Helper()
	// The first start on a machine builds the binaries.
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{APIServerArgs: apiServerArgs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{plane: plane, home: t.TempDir(), namespace: namespace}
}

// try runs kubectl and returns what it prints and what it complains of, "" after a success.
func (c *cluster) try(t *testing.T, input []byte, args ...string) (string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.plane.KubectlPath(), append([]string{"--namespace=" + c.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.plane.Kubeconfig(), "HOME="+c.home)
	cmd.Stdin = bytes.NewReader(input)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return string(out), err.Error() + ": " + complaints.String()
	}
	return string(out), ""
}

// kubectl is try for what has to succeed.
func (c *cluster) kubectl(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	out, complaint := c.try(t, input, args...)
	if complaint != "" {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), complaint)
	}
	return out
}

// apply sends objects: an unknown field is an error, and so is a conflict.
func (c *cluster) apply(t *testing.T, manifest []byte) {
	t.Helper()
	c.kubectl(t, manifest, "apply", "--server-side", "--validate=strict", "-f", "-")
}

// waitFor waits until the object is there and meets the conditions of kubectl wait.
func (c *cluster) waitFor(t *testing.T, what string, conditions ...string) {
	t.Helper()
	for _, each := range append([]string{"create"}, conditions...) {
		if _, complaint := c.try(t, nil, "wait", what, "--for="+each, timeout); complaint != "" {
			found, _ := c.try(t, nil, "get", what, "-o", "yaml")
			t.Fatalf("%s is not %s: %s\n%s", what, each, complaint, found)
		}
	}
}

func (c *cluster) get(t *testing.T, what ...string) object {
	t.Helper()
	found := object{}
	text := c.kubectl(t, nil, append([]string{"get", "-o", "json"}, what...)...)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// define applies definitions and waits until they are served.
func (c *cluster) define(t *testing.T, definitions []object) {
	t.Helper()
	manifest := marshal(t, definitions)
	c.apply(t, manifest)
	c.kubectl(t, manifest, "wait", "--for=condition=Established", timeout, "-f", "-")
}

// start runs a program next to the API server until the end of the test.
func (c *cluster) start(t *testing.T, o controlplane.Companion) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	process := c.plane.NewCompanion(o)
	if err := process.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(process.LogPath())
			t.Logf("%s, error %v:\n%s", o.Name, err, log[max(0, len(log)-20000):])
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// build returns the path of a program that a module next to this package pins.
func build(t *testing.T, module, command, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", program, command)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	return program
}

// documents decodes a manifest.
func documents(t *testing.T, manifest string) []object {
	t.Helper()
	var objects []object
	for text := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		decoded := object{}
		if err := yaml.UnmarshalStrict([]byte(text), &decoded); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if len(decoded) > 0 {
			objects = append(objects, decoded)
		}
	}
	return objects
}

// marshal is the reverse of documents.
func marshal(t *testing.T, objects []object) []byte {
	t.Helper()
	var manifest bytes.Buffer
	for _, each := range objects {
		text, err := json.Marshal(each)
		if err != nil {
			t.Fatal(err)
		}
		manifest.WriteString("---\n" + string(text) + "\n")
	}
	return manifest.Bytes()
}

// field returns the value at a path of keys, nil where there is none.
func field(of any, keys ...string) any {
	for _, key := range keys {
		next, is := of.(object)
		if !is {
			return nil
		}
		of = next[key]
	}
	return of
}
