package admission

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestChangesSayWhatTheyDo changes a pool that has nodes, its class, and the certificate of the
// webhooks, all in one running Stratos.
func TestChangesSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	class, pool := good(t, "AWSNodeClass", nil), good(t, "NodePool", nil)
	// The pool has a startup taint, so its machines need a network that tells when it is up.
	script, _, err := unstructured.NestedString(class.Object, "spec", "userData")
	if err != nil || unstructured.SetNestedField(class.Object, "#!/bin/bash\nCNI=calico\n"+script, "spec",
		"userData") != nil {
		t.Fatal("set-up: the class has no user data", err)
	}
	for _, o := range []client.Object{class, pool} {
		if err := g.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if said := g.heard.take(); len(said) > 0 {
		t.Errorf("class and pool in one go: warned %q", said)
	}
	assert.AwaitStandby(t, g.Rig, "workers", 3)
	t.Run("what was applied stays as it was written", func(t *testing.T) {
		if err := g.client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		ttl, _, err := unstructured.NestedString(pool.Object, "spec", "scaleDown", "emptyNodeTTL")
		if err != nil || ttl != "60m" || len(pool.GetFinalizers()) != 1 || pool.GetGeneration() != 1 {
			t.Errorf(
				"emptyNodeTTL %q, error %v, finalizers %v, generation %d: want 60m as it was applied, one finalizer, no change of the spec",
				ttl,
				err,
				pool.GetFinalizers(),
				pool.GetGeneration(),
			)
		}
	})
	for name, c := range map[string]struct {
		of     *unstructured.Unstructured
		change string
		want   string
	}{
		"another label": {pool, `{"spec": {"template": {"labels": {"team": "a"}}}}`,
			"spec.template: 3 nodes were launched from the template as it was"},
		"drift that is ignored": {pool,
			`{"spec": {"template": {"labels": {"team": "a"}}, "disruption": {"drift": "Ignore"}}}`, ""},
		"a smaller pool": {pool, `{"spec": {"poolSize": 1, "minStandby": 1}}`,
			"spec.poolSize: 1 is below the 3 nodes of the pool: 2 nodes of standby are terminated at once"},
		"a policy that no node shows": {pool, `{"spec": {"scaleDown": {"emptyNodeTTL": "10m"}}}`, ""},
		"another image": {class, `{"spec": {"ami": "ami-00000000"}}`,
			"spec: 3 nodes of NodePool workers were launched from the class as it was"},
		"a mark only": {class, `{"metadata": {"labels": {"team": "a"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) { g.testChange(t, c.of, c.change, c.want) })
	}
	t.Run("a class in use", func(t *testing.T) { g.testDeletion(t, class, pool) })
	t.Run("a new certificate", g.testCertificate)
}

// testChange tries the change without storing it.
func (g *site) testChange(t *testing.T, object *unstructured.Unstructured, change, want string) {
	g.heard.take()
	patch := client.RawPatch("application/merge-patch+json", []byte(change))
	if err := g.client.Patch(t.Context(), object.DeepCopy(), patch, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	said := g.heard.take()
	if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.HasPrefix(said[0], want)) {
		t.Errorf("warned %q, want %q", said, want)
	}
}

// testDeletion: kubectl delete -f with both in one file works, because a pool that goes needs its
// class no more.
func (g *site) testDeletion(t *testing.T, class, pool *unstructured.Unstructured) {
	err := g.client.Delete(t.Context(), class)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "it is in use by NodePool workers") {
		t.Fatalf("deleting a class in use: %v", err)
	}
	if err := g.client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := g.client.Delete(t.Context(), class); err != nil {
		t.Errorf("after its pool: %v", err)
	}
}

// testCertificate replaces the files under a running process, as a mounted Secret does.
func (g *site) testCertificate(t *testing.T) {
	before, pid := g.serial(t), g.stratos.Process.PID()
	if err := g.ControlPlane.WriteServingCertificate(g.certDir, "stratos-webhook"); err != nil {
		t.Fatal(err)
	}
	assert.Eventually(t, "another certificate than "+before, func(context.Context) (string, error) {
		return g.serial(t), nil
	}, func(now string) bool { return now != before })
	g.awaitAsked(t)
	if now := g.stratos.Process.PID(); now != pid || pid == 0 {
		t.Errorf("process %d, before %d: want the same", now, pid)
	}
}

func (g *site) serial(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", g.address,
		&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // which certificate it is, is the question
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
