package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// writeCertificate writes one that ends then.
func writeCertificate(t *testing.T, folder string, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndOfTheCertificate: a renewed one shows at the next scrape, and one that cannot be read has
// no series.
func TestEndOfTheCertificate(t *testing.T) {
	folder, registry := t.TempDir(), prometheus.NewPedanticRegistry()
	if err := RegisterMetrics(registry, folder); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series without a certificate (%v)", n, err)
	}
	for _, end := range []time.Time{time.Unix(1_900_000_000, 0), time.Unix(2_000_000_000, 0)} {
		writeCertificate(t, folder, end)
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%d metrics, %v", len(families), err)
		}
		if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != float64(end.Unix()) {
			t.Errorf("%v, want %v", got, end.Unix())
		}
	}
}
