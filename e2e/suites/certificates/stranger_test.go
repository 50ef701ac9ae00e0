package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// authority signs client certificates that cert-manager would not issue.
type authority struct{ *assert.Authority }

// namesake is a CA of a stranger that bears the name of ours.
func namesake(t *testing.T, of *x509.Certificate) *authority {
	t.Helper()
	return &authority{assert.NewAuthority(t, of.RawSubject)}
}

// ours is the CA that cert-manager signs with.
func ours(t *testing.T, files map[string][]byte) *authority {
	t.Helper()
	pair, err := tls.X509KeyPair(files["tls.crt"], files["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return &authority{&assert.Authority{Certificate: pair.Leaf, Key: pair.PrivateKey.(crypto.Signer)}}
}

// client signs a certificate that ends after the given time, which may be negative, and returns the
// files of its Secret.
func (a *authority) client(t *testing.T, lasts time.Duration) map[string][]byte {
	t.Helper()
	certificate, key := a.Issue(t, &x509.Certificate{
		Subject:   pkix.Name{CommonName: "stratos-scheduler"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(lasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": a.PEM()}
}

// answer is what the extender had to say to a client, or the error that kept it from saying
// anything.
type answer struct {
	code int
	text string
}

// ask posts an empty question to the extender, in a connection of its own. identity are the files
// of a client's Secret, nil for a client without a certificate; what is shown does not depend on
// what the server says it accepts.
func (g *site) ask(ctx context.Context, scheme string, trusted, identity map[string][]byte) answer {
	config := trusting(trusted, extenderName)
	if identity != nil {
		pair, err := tls.X509KeyPair(identity["tls.crt"], identity["tls.key"])
		if err != nil {
			return answer{text: err.Error()}
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	client := &http.Client{Timeout: framework.HangGuard, Transport: &http.Transport{TLSClientConfig: config,
		DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+g.extender+"/filter",
		strings.NewReader("{}"))
	if err != nil {
		return answer{text: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{code: response.StatusCode, text: fmt.Sprintf("%s %v", body, err)}
}

func trusting(files map[string][]byte, name string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files["ca.crt"])
	return &tls.Config{RootCAs: roots, ServerName: name}
}

// shown is the certificate that is served at the address under the name, verified by the CA of the
// files.
func shown(ctx context.Context, address, name string, trusted map[string][]byte) (*x509.Certificate, error) {
	// The client learns only when it reads whether the server accepts its certificate. So it needs
	// none to see the server's.
	conn, err := (&tls.Dialer{Config: trusting(trusted, name)}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
