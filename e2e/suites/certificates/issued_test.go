package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestCertificatesByCertManager: what cert-manager issues for the rendered chart makes everything
// work that it is for, and no other client gets in.
func TestCertificatesByCertManager(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	checkBundles(t, g)
	checkRefusals(t, g)
	// The chart's webhooks fail closed: without an answer over TLS there would be no class and no
	// pool.
	g.warm(t, 2)
	checkAdmission(t, g)
	if asked := g.filtered(t); asked != 0 {
		t.Fatalf("%v questions were answered before there was a pod", asked)
	}
	g.wake(t, "first")
	if asked := g.filtered(t); asked == 0 || g.asking.connections() == 0 {
		t.Errorf("%v questions were answered in %d connections: the node was not started by a question over mutual TLS",
			asked, g.asking.connections())
	}
}

// checkAdmission: the API server has asked at the Service of the chart, and a fault that no schema
// knows comes back as Stratos's own words.
func checkAdmission(t *testing.T, g *site) {
	t.Helper()
	service := assert.Now(t, g.Rig, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: strings.Split(webhookName, ".")[0]}})
	if got, want := g.egress.destinations(), []string{service.Spec.ClusterIP + ":443"}; !slices.Equal(got, want) {
		t.Errorf("the API server asked for %v, want %v", got, want)
	}
	if err := g.admit(t, "registry.example//app"); err == nil || !strings.Contains(err.Error(),
		`admission webhook "validate.nodepool.stratos.sh" denied`) {
		t.Errorf("a pool with an image that is none: %v, want a refusal by the webhook", err)
	}
	if err := g.admit(t, "registry.example/app"); err != nil {
		t.Errorf("a pool without fault: %v", err)
	}
}

// admit asks for a pool whose nodes pull the image, as a dry run.
func (g *site) admit(t *testing.T, image string) error {
	t.Helper()
	pool := framework.Pool("tried", 1)
	pool.Spec.Template.NodeClassRef.Name = "warm"
	pool.Spec.PreWarm.ImagesToPull = []string{image}
	return g.Client.Create(t.Context(), pool, client.DryRunAll)
}

// checkBundles: with what the CA injector wrote, the API server can verify the certificate that
// Stratos shows.
func checkBundles(t *testing.T, g *site) {
	t.Helper()
	checked := 0
	for _, o := range g.installed.chart.Objects {
		if o.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
			continue
		}
		for name, bundle := range awaitBundles(t, g.Rig, o) {
			checkVerifies(t, o.GetName()+" "+name, bundle, secret(t, g.Rig, servingSecret)["tls.crt"])
			checked++
		}
	}
	if checked == 0 {
		t.Error("no webhook wants a CA injected")
	}
}

// awaitBundles returns the CA bundle of each webhook once all have one.
func awaitBundles(t *testing.T, r *framework.Rig, o *unstructured.Unstructured) map[string][]byte {
	t.Helper()
	bundles := func(o *unstructured.Unstructured) map[string][]byte {
		// Both kinds of configurations have these fields.
		configuration := &admissionv1.ValidatingWebhookConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, configuration); err != nil {
			t.Fatalf("a CA is injected into a %s, which this test does not know: %v", o.GetKind(), err)
		}
		found := map[string][]byte{}
		for _, w := range configuration.Webhooks {
			found[w.Name] = w.ClientConfig.CABundle
		}
		return found
	}
	return bundles(assert.AwaitObject(t, r, o, "CA bundles", func(o *unstructured.Unstructured) bool {
		all := slices.Collect(maps.Values(bundles(o)))
		return len(all) > 0 && !slices.ContainsFunc(all, func(b []byte) bool { return len(b) == 0 })
	}))
}

func checkVerifies(t *testing.T, what string, bundle, certificate []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Errorf("%s: the CA bundle holds no certificate", what)
	}
	leaf := parse(t, certificate)
	for _, name := range []string{webhookName, extenderName} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			t.Errorf("%s: %s: %v", what, name, err)
		}
	}
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil {
		t.Fatal("no PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// checkRefusals: who is refused reads why, and is refused before the extender has read a question.
func checkRefusals(t *testing.T, g *site) {
	t.Helper()
	root, scheduler, serving := secret(t, g.Rig, rootSecret), secret(t, g.Rig, schedulerSecret),
		secret(t, g.Rig, servingSecret)
	foreign := namesake(t, parse(t, root["tls.crt"]))
	mine := ours(t, root)
	for name, tc := range map[string]struct {
		scheme   string
		identity map[string][]byte
		code     int
		says     string
	}{
		// An empty question of who may ask is read, and answered by what is wrong with it.
		"the scheduler's certificate": {"https", scheduler, http.StatusBadRequest, "Pod is missing"},
		"another certificate of our CA": {"https", mine.client(t, time.Hour), http.StatusBadRequest,
			"Pod is missing"},
		"no certificate":                         {"https", nil, 0, "certificate required"},
		"a certificate of a CA of the same name": {"https", foreign.client(t, time.Hour), 0, "unknown certificate authority"},
		"an expired certificate of our CA":       {"https", mine.client(t, -time.Hour), 0, "expired certificate"},
		"Stratos's own serving certificate":      {"https", serving, 0, "bad certificate"},
		"plain HTTP":                             {"http", nil, http.StatusBadRequest, "HTTP request to an HTTPS server"},
	} {
		t.Run(name, func(t *testing.T) {
			got := g.ask(t.Context(), tc.scheme, serving, tc.identity)
			if got.code != tc.code || !strings.Contains(got.text, tc.says) {
				t.Errorf("answered %d %q, want %d and %q", got.code, got.text, tc.code, tc.says)
			}
		})
	}
}
