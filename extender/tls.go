package extender

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Validate refuses what would let any client on the network start nodes or read pods. Its errors
// name the flags.
func (o Options) Validate() error {
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		return fmt.Errorf("--extender-bind-address %q is not host:port: %w", o.BindAddress, err)
	}
	switch {
	case o.CertDir == "" && o.ClientCA != "":
		return errors.New("--client-ca needs --cert-dir: without a certificate of its own the extender speaks plain HTTP")
	case IsLoopback(o.BindAddress):
		return nil
	case o.CertDir == "":
		return errExposedWithoutTLS(o.BindAddress)
	case o.ClientCA == "":
		return fmt.Errorf("--extender-bind-address %q is not loopback, so --client-ca is required: "+
			"any client that reaches it can start nodes", o.BindAddress)
	}
	return nil
}

func errExposedWithoutTLS(address string) error {
	return fmt.Errorf("--extender-bind-address %q is not loopback, so --cert-dir is required: "+
		"plain HTTP is served on loopback only", address)
}

// IsLoopback takes localhost on trust; listen checks what it resolved to.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopbackHost(host)
}

func isLoopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func isLoopbackAddr(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// certificates are the server's pair and the clients' CA, both reloaded while serving.
type certificates struct {
	server  *certwatcher.CertWatcher
	clients *clientCA // nil: no client certificate is asked for
}

// newCertificates reads what the options name; nil without CertDir.
func newCertificates(options Options) (*certificates, error) {
	if options.CertDir == "" {
		return nil, nil
	}
	server, err := certwatcher.New(filepath.Join(options.CertDir, "tls.crt"), filepath.Join(options.CertDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--cert-dir %q: %w", options.CertDir, err)
	}
	certs := &certificates{server: server}
	if options.ClientCA == "" {
		return certs, nil
	}
	certs.clients = &clientCA{path: options.ClientCA, log: options.Log}
	if err := certs.clients.reload(); err != nil {
		return nil, fmt.Errorf("--client-ca %q: %w", options.ClientCA, err)
	}
	return certs, nil
}

// watch follows the server's pair until ctx ends.
func (c *certificates) watch(ctx context.Context) error {
	if err := c.server.Start(ctx); err != nil {
		return fmt.Errorf("extender certificate: %w", err)
	}
	return nil
}

func (c *certificates) tlsConfig() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: c.server.GetCertificate,
	}
	if c.clients == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = c.clients.current()
	// A resumed session carries the result of an earlier handshake. We do not rely on how a Go release
	// compares that with a CA replaced meanwhile: connections are kept alive, so full handshakes are
	// rare and cost nothing that matters.
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		fresh := config.Clone()
		fresh.GetConfigForClient = nil
		fresh.ClientCAs = c.clients.current()
		return fresh, nil
	}
	return config
}

// clientCA is the pool that client certificates are checked against.
type clientCA struct {
	path string
	log  logr.Logger

	mu   sync.Mutex // guards pem and pool: handshakes are concurrent
	pem  []byte
	pool *x509.CertPool
}

// current rereads the file at each handshake: it has a few kilobytes, and so neither a missed
// notification nor a polling interval can stand between a rotation and its effect. While the file
// is unreadable the last good pool stays: a rotation half done must not cut the scheduler off.
func (c *clientCA) current() *x509.CertPool {
	if err := c.reload(); err != nil {
		c.log.Error(err, "Client CA unreadable, keeping the last one", "path", c.path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pool
}

// reload parses the file when its bytes changed. On an error nothing changes.
func (c *clientCA) reload() error {
	pem, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(pem, c.pem) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("holds no PEM certificate")
	}
	c.pem, c.pool = pem, pool
	return nil
}

// connectionLog carries net/http's own lines (failed handshakes, mostly) to V(1): port scanners and
// probes cause them, so they are no news at the default level.
func connectionLog(logger logr.Logger) *log.Logger {
	return log.New(logWriter{logger.V(1)}, "", 0)
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Info("Extender connection", "detail", strings.TrimSpace(string(line)))
	return len(line), nil
}
