package minors

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	assert.Await(t, "the scheduler's lease", func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: leaseName}, lease); err != nil {
			return false, err
		}
		return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", nil
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
	ca := newAuthority(t)
	serving, err := tls.X509KeyPair(ca.issue(t, &x509.Certificate{DNSNames: []string{serviceName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}))
	if err != nil {
		t.Fatal(err)
	}
	f := &front{files: ca.clientFiles(t)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if name := req.TLS.PeerCertificates[0].Subject.CommonName; name != clientName || req.TLS.ServerName != serviceName {
			http.Error(w, fmt.Sprintf("client %q asks for %q", name, req.TLS.ServerName), http.StatusForbidden)
			return
		}
		f.asked.Add(1)
		behind.ServeHTTP(w, req)
	}))
	clients := x509.NewCertPool()
	clients.AddCert(ca.certificate)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: clients, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key}
}

// issue returns a certificate made from the template and its key, both PEM.
func (a *authority) issue(t *testing.T, template *x509.Certificate) (certificate, key []byte) {
	t.Helper()
	own := newKey(t)
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// clientFiles are what lies beside a static pod's configuration.
func (a *authority) clientFiles(t *testing.T) extender.SchedulerTLS {
	t.Helper()
	dir := t.TempDir()
	files := extender.SchedulerTLS{
		CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		ServerName: serviceName,
	}
	certificate, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: clientName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for path, text := range map[string][]byte{
		files.CAFile:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}),
		files.CertFile: certificate, files.KeyFile: key,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
