package extender

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const testServerName = "stratos-extender.stratos-system.svc"

// authority issues certificates for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = a.sign(t, template, template, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// issue returns a new pair, as PEM, each with a serial number of its own.
func (a *authority) issue(t *testing.T, usage x509.ExtKeyUsage) (certificate, key []byte) {
	t.Helper()
	a.serial++
	leafKey := newKey(t)
	leaf := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "leaf"}, DNSNames: []string{testServerName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.certificate, leafKey)
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) writeServerPair(t *testing.T, dir string) {
	t.Helper()
	certificate, key := a.issue(t, x509.ExtKeyUsageServerAuth)
	writeFile(t, filepath.Join(dir, "tls.crt"), certificate)
	writeFile(t, filepath.Join(dir, "tls.key"), key)
}

func (a *authority) serverDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	a.writeServerPair(t, dir)
	return dir
}

// client trusts the authority's servers and shows the certificate of identity, none where nil. It
// makes a new connection for each request, as only a handshake can be refused.
func (a *authority) client(t *testing.T, identity *authority) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	config := &tls.Config{RootCAs: roots, ServerName: testServerName}
	if identity != nil {
		certificate, key := identity.issue(t, x509.ExtKeyUsageClientAuth)
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		// Shown whatever the server says it accepts, as an attacker would.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return &http.Client{Timeout: testTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

func decodeOneValue(t *testing.T, from io.Reader) {
	t.Helper()
	var value any
	if err := json.NewDecoder(from).Decode(&value); err != nil {
		t.Fatal(err)
	}
}

func TestTLSAsksForTheRightClientCertificate(t *testing.T) {
	servers, clients, strangers := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, caFile, clients.pem())
	decider := acceptAll()
	address, _, _ := start(t, newTestServer(t, decider, Options{BindAddress: ":0", CertDir: servers.serverDir(t),
		ClientCA: caFile}))
	address = loopback(t, address)

	for name, tc := range map[string]struct {
		url      string
		identity *authority
		served   bool
	}{
		"right certificate":   {"https://", clients, true},
		"no certificate":      {"https://", nil, false},
		"foreign certificate": {"https://", strangers, false},
		// A certificate of the server's own CA is not a client's.
		"server's authority":     {"https://", servers, false},
		"plain HTTP to the port": {"http://", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := decider.count()
			code, err := post(t, servers.client(t, tc.identity), tc.url+address+"/filter")
			if served := err == nil && code == http.StatusOK; served != tc.served {
				t.Errorf("%d, %v", code, err)
			}
			if asked := decider.count() > before; asked != tc.served {
				t.Errorf("decision asked: %t", asked)
			}
		})
	}
}

// loopback turns [::]:port into an address that can be dialled without a name.
func loopback(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func TestTLSWithoutClientCAServesAnyClientButNoOldProtocol(t *testing.T) {
	servers := newAuthority(t, "servers")
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{CertDir: servers.serverDir(t)}))
	client := servers.client(t, nil)
	if code, err := post(t, client, "https://"+address+"/filter"); err != nil || code != http.StatusOK {
		t.Errorf("%d, %v", code, err)
	}
	old := servers.client(t, nil)
	config := old.Transport.(*http.Transport).TLSClientConfig
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if code, err := post(t, old, "https://"+address+"/filter"); err == nil {
		t.Errorf("TLS 1.1 was served: %d", code)
	}
}

// serialOf handshakes once and returns the serial number of the server's certificate.
func serialOf(ctx context.Context, address string, config *tls.Config) (int64, error) {
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestServerCertificateIsReloadedWithoutRestart(t *testing.T) {
	servers := newAuthority(t, "servers")
	dir := servers.serverDir(t)
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{CertDir: dir}))
	config := servers.client(t, nil).Transport.(*http.Transport).TLSClientConfig
	first, err := serialOf(t.Context(), address, config)
	if err != nil || first != servers.serial {
		t.Fatalf("serial %d, %v", first, err)
	}
	servers.writeServerPair(t, dir)
	// The watcher learns of the change from the kernel, or at the latest after its 10 s.
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for {
		got, err := serialOf(ctx, address, config)
		if err != nil {
			t.Fatalf("still serial %d at the deadline: %v", first, err)
		}
		if got == servers.serial {
			return
		}
	}
}

func TestClientCAIsReloadedWithoutRestart(t *testing.T) {
	servers, before, after := newAuthority(t, "servers"), newAuthority(t, "before"), newAuthority(t, "after")
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, caFile, before.pem())
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{CertDir: servers.serverDir(t), ClientCA: caFile}))
	oldClient, newClient := servers.client(t, before), servers.client(t, after)
	expect := func(name string, client *http.Client, served bool) {
		t.Helper()
		code, err := post(t, client, "https://"+address+"/filter")
		if got := err == nil && code == http.StatusOK; got != served {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
	expect("old client before", oldClient, true)
	expect("new client before", newClient, false)

	writeFile(t, caFile, append(before.pem(), after.pem()...))
	expect("old client, both CAs", oldClient, true)
	expect("new client, both CAs", newClient, true)

	writeFile(t, caFile, after.pem())
	// The old client holds a session of an earlier handshake; it must not open the door.
	expect("old client after", oldClient, false)
	expect("new client after", newClient, true)

	for name, spoil := range map[string]func(){
		"garbage": func() { writeFile(t, caFile, []byte("half a rota")) },
		"missing": func() {
			if err := os.Remove(caFile); err != nil {
				t.Fatal(err)
			}
		},
	} {
		spoil()
		expect("new client, CA file "+name, newClient, true)
		expect("old client, CA file "+name, oldClient, false)
		writeFile(t, caFile, after.pem())
	}
}
