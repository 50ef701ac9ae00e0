package definitions

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// testdata is the folder of the objects, which belongs to package crds.
const testdata = "../../../crds/testdata"

// server is a real API server with the CRDs and without a Stratos: what it says is what the schema
// says.
type server struct {
	plane  *controlplane.ControlPlane
	client client.Client
}

func newServer(t *testing.T) *server {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Install(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return &server{plane: plane, client: client.WithFieldValidation(c, "Strict")}
}

// kubectl runs the control plane's own kubectl and returns what it prints.
func (s *server) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.try(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *server) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.plane.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.plane.Kubeconfig(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// awaitPublished waits for the schemas that kubectl explains from: the API server publishes them a
// moment after it serves the types.
func (s *server) awaitPublished(t *testing.T) {
	t.Helper()
	err := framework.Until(t.Context(), framework.HangGuard, func(context.Context) (bool, error) {
		for _, kind := range []string{"nodepools", "awsnodeclasses"} {
			if out, err := s.try(t, "explain", kind+".stratos.sh"); err != nil {
				return false, fmt.Errorf("%w: %s", err, out)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// file is one object and the comment on its first line.
type file struct {
	comment string
	object  *unstructured.Unstructured
}

// files reads the objects of a folder under testdata by file name; fewer than least is an error,
// since a folder that has moved would make every test pass.
func files(t *testing.T, folder string, least int) map[string]file {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testdata, folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < least {
		t.Fatalf("%s/%s holds %d files, want at least %d", testdata, folder, len(paths), least)
	}
	found := map[string]file{}
	for _, path := range paths {
		f, err := read(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".yaml")] = f
	}
	return found
}

func read(path string) (file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return file{}, err
	}
	object := &unstructured.Unstructured{}
	return file{comment: first, object: object}, object.UnmarshalJSON(data)
}

// leaves are the values of an object by their path, as "disruption.budget" or "taints[0].key".
// Empty lists and objects are leaves too.
func leaves(at string, value any, into map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			into[at] = v
		}
		for key, child := range v {
			leaves(strings.TrimPrefix(at+"."+key, "."), child, into)
		}
	case []any:
		if len(v) == 0 {
			into[at] = v
		}
		for i, child := range v {
			leaves(fmt.Sprintf("%s[%d]", at, i), child, into)
		}
	default:
		into[at] = v
	}
}
