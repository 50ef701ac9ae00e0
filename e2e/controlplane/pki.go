package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// validity outlives any test; the authority and its keys are thrown away with the control plane.
	validity = 365 * 24 * time.Hour
	// backdate keeps a clock that steps back a little from making new certificates invalid.
	backdate = time.Hour
)

// authority signs certificates. Keys are P-256 because RSA keys would take a good part of the start
// time.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pair        keyPair
}

// keyPair is PEM.
type keyPair struct{ certificate, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template := certificateTemplate(pkix.Name{CommonName: name})
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	pair, err := encodePair(der, key)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, pair: pair}, nil
}

func certificateTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		// Subjects may repeat, serial numbers must not: 64 random bits.
		SerialNumber:          new(big.Int).SetBytes(randomBytes(8)),
		Subject:               subject,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

// randomBytes needs no error: crypto/rand ends the program when the system has no randomness.
func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

// client issues a certificate that the API server reads as this user and groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for loopback and for the names under which pods know the API server.
func (a *authority) server(name string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return encodePair(der, key)
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode a key: %w", err)
	}
	return keyPair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}, nil
}

// write stores <name>.crt and <name>.key.
func (p keyPair) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.certificate, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600)
}

// writePKI makes everything the components read from files; the cluster's authority stays in memory
// for [ControlPlane.UserKubeconfig].
func writePKI(dir string) (*authority, error) {
	cluster, err := newAuthority("kubernetes")
	if err != nil {
		return nil, err
	}
	frontProxy, err := newAuthority("front-proxy-ca")
	if err != nil {
		return nil, err
	}
	serving, err := cluster.server("kube-apiserver")
	if err != nil {
		return nil, err
	}
	// Only the key is used; a certificate around it spares a second kind of file.
	serviceAccounts, err := cluster.client("service-account-signer")
	if err != nil {
		return nil, err
	}
	proxyClient, err := frontProxy.client(frontProxyUser)
	if err != nil {
		return nil, err
	}
	files := []struct {
		name string
		pair keyPair
	}{
		{"ca", cluster.pair}, {"front-proxy-ca", frontProxy.pair}, {"serving", serving},
		{"service-accounts", serviceAccounts}, {"front-proxy", proxyClient},
	}
	for _, file := range files {
		if err := file.pair.write(dir, file.name); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}
