package minors

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender"
)

const (
	// secondScheduler is what pods name whose scheduler has the wiring of the control plane.
	secondScheduler = "stratos-control-plane"
	leaseName       = "stratos-scheduler"
	// serviceName is in the certificate, the address is not: it is checked through serverName or not
	// at all.
	serviceName = "stratos-extender.stratos-system.svc"
	clientName  = "stratos-scheduler"
)

// testControlPlane is the main job with the other configuration: own lease, mutual TLS, the
// identity of the control plane's scheduler. Who ends the TLS is a front of the test, because what
// differs between minors is the scheduler's side.
func testControlPlane(t *testing.T, r *framework.Rig, p pool, minor string) {
	f := newFront(t, r.Recorder)
	config, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
		Wiring: extender.WiringControlPlane, KubernetesMinor: minor, SchedulerName: secondScheduler,
		LeaderElect: true, LeaseNamespace: metav1.NamespaceSystem, LeaseName: leaseName,
		Kubeconfig: controlplane.KubeconfigPlaceholder, ExtenderURL: f.url, TLS: f.files,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: secondScheduler,
		ConfigYAML: config}); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName}}
	assert.AwaitObject(t, r, lease, "held", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	})
	p.checkOneStart(t, r, secondScheduler, 2)
	if f.asked.Load() == 0 {
		t.Error("the scheduler never asked by mutual TLS")
	}
}

// front ends TLS before the recorder and serves clients of its CA alone.
type front struct {
	url   string
	files extender.SchedulerTLS
	asked atomic.Int64
}

func newFront(t *testing.T, behind http.Handler) *front {
	t.Helper()
	subject, err := asn1.Marshal(pkix.Name{CommonName: "e2e"}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	ca := assert.NewAuthority(t, subject)
	serving, err := tls.X509KeyPair(ca.Issue(t, &x509.Certificate{DNSNames: []string{serviceName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}))
	if err != nil {
		t.Fatal(err)
	}
	f := &front{files: clientFiles(t, ca)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if name := req.TLS.PeerCertificates[0].Subject.CommonName; name != clientName || req.TLS.ServerName != serviceName {
			http.Error(w, fmt.Sprintf("client %q asks for %q", name, req.TLS.ServerName), http.StatusForbidden)
			return
		}
		f.asked.Add(1)
		behind.ServeHTTP(w, req)
	}))
	clients := x509.NewCertPool()
	clients.AddCert(ca.Certificate)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: clients, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// clientFiles are what lies beside a static pod's configuration.
func clientFiles(t *testing.T, a *assert.Authority) extender.SchedulerTLS {
	t.Helper()
	dir := t.TempDir()
	files := extender.SchedulerTLS{
		CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		ServerName: serviceName,
	}
	certificate, key := a.Issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: clientName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for path, text := range map[string][]byte{
		files.CAFile:   a.PEM(),
		files.CertFile: certificate, files.KeyFile: key,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
