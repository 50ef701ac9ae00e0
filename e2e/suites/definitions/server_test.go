package definitions

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

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
	c, err := framework.NewClient(plane.Kubeconfig(), nil)
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
	out, err := assert.Kubectl(t, s.plane, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// awaitPublished waits for the schemas that kubectl explains from: the API server publishes them a
// moment after it serves the types.
func (s *server) awaitPublished(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"nodepools", "awsnodeclasses"} {
		assert.Await(t, "schema of "+kind, func(context.Context) (bool, error) {
			out, err := assert.Kubectl(t, s.plane, "explain", kind+".stratos.sh")
			if err != nil {
				return false, fmt.Errorf("%w: %s", err, out)
			}
			return true, nil
		})
	}
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
