package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// answerLimit bounds how much of a failed health check's text an error repeats, in bytes.
const answerLimit = 2 << 10

// prober asks health endpoints as the administrator.
type prober struct{ client *http.Client }

func newProber(a *authority) (*prober, error) {
	pair, err := a.client(adminUser, adminGroup)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.certificate, pair.key)
	if err != nil {
		return nil, fmt.Errorf("load the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &prober{client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate},
			MinVersion: tls.VersionTLS12},
		// A kept connection would survive in the API server's shutdown and fail the first probe after its
		// restart.
		DisableKeepAlives: true,
		// Proxy stays nil: HTTPS_PROXY is not for loopback.
	}}}, nil
}

// probe returns a check that is nil once the address answers 200.
func (p *prober) probe(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := p.client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
		if err != nil {
			return fmt.Errorf("%s answers %s: %w", url, response.Status, err)
		}
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(text)))
	}
}

// all is nil once every check is.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
