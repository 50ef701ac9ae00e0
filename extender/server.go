// Package extender answers kube-scheduler's extender calls: which of the nodes that passed its own
// filters a pod may use, and which standby node has to start for it.
package extender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

const (
	// DefaultMaxBodyBytes holds 10,000 node names of 253 characters and a pod of 1.5 MiB, which is
	// the most that etcd stores, with room left.
	DefaultMaxBodyBytes int64 = 8 << 20
	// DefaultMaxInFlight is generous: one kube-scheduler process asks one question at a time, so this
	// is reached by a client that is not kube-scheduler. With DefaultMaxBodyBytes it bounds memory.
	DefaultMaxInFlight = 32

	// readHeaderTimeout and readTimeout bound a slow client, TLS handshake included. kube-scheduler
	// gives up after httpTimeout (2 s), so a slower client has no use for an answer.
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	// writeTimeout counts from the end of the request's header, so it includes readTimeout.
	writeTimeout = 20 * time.Second
	// idleTimeout is longer than the 90 s after which kube-scheduler's own client drops an idle
	// connection: were ours shorter, a request could meet a closing connection and fail its pod.
	idleTimeout = 5 * time.Minute
	// maxHeaderBytes: kube-scheduler's header is under 200 bytes.
	maxHeaderBytes = 16 << 10
	// shutdownTimeout is longer than httpTimeout, so every question asked before it gets its answer.
	shutdownTimeout = 5 * time.Second
)

// Options configure a Server. The zero value of every limit means its default.
type Options struct {
	// BindAddress is host:port. Beyond loopback both CertDir and ClientCA are required.
	BindAddress string
	// CertDir holds tls.crt and tls.key, reloaded when they change. Empty: plain HTTP on loopback.
	CertDir string
	// ClientCA is a file of PEM certificates. Where set, a client needs a certificate issued by one
	// of them. It is reread at every handshake, so a rotation needs no restart.
	ClientCA string
	// MaxBodyBytes is the largest request body that is read. Larger ones are refused with 413.
	MaxBodyBytes int64
	// MaxInFlight is the number of requests worked on at once. More are refused with 503.
	MaxInFlight int
	// Log receives panics and certificate trouble. The zero value discards.
	Log logr.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	return o
}

// Server is a manager.Runnable that serves the extender on every replica: kube-scheduler asks
// whichever replica it reaches, so leadership must not matter.
type Server struct {
	options Options
	http    *http.Server
	certs   *certificates // nil: plain HTTP

	listening sync.Once
	bound     chan struct{} // closed once addr is set
	addr      net.Addr
}

// NewServer checks the options, reads the certificates and registers the metrics with registerer.
// It does not listen: Start does. A misconfigured address or certificate is an error that names the
// flag.
func NewServer(decider Decider, registerer prometheus.Registerer, options Options) (*Server, error) {
	options = options.withDefaults()
	if err := options.Validate(); err != nil {
		return nil, err
	}
	certs, err := newCertificates(options)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(registerer)
	if err != nil {
		return nil, err
	}
	return &Server{
		options: options,
		certs:   certs,
		bound:   make(chan struct{}),
		http: &http.Server{
			Handler:           newRouter(decider, metrics, options),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			Protocols:         http1Only(),
			ErrorLog:          connectionLog(options.Log),
		},
	}, nil
}

// http1Only: kube-scheduler asks one question at a time, so HTTP/2 would bring no speed, only
// its larger surface (streams that one connection may open without limit of ours).
func http1Only() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return protocols
}

// NeedLeaderElection is false: every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// Start listens and serves until ctx ends, then lets the requests in flight finish.
// It returns an error when it cannot listen, or when requests outlive the shutdown's 5 s.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	if s.certs != nil {
		group.Go(func() error { return s.certs.watch(groupCtx) })
	}
	group.Go(func() error { return s.serve(listener) })
	group.Go(func() error { return s.shutdownAfter(groupCtx) })
	return group.Wait()
}

// Addr returns the bound address, waiting until Start listens. The error is ctx's.
func (s *Server) Addr(ctx context.Context) (net.Addr, error) {
	select {
	case <-s.bound:
		return s.addr, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("extender cannot listen on --extender-bind-address %q: %w", s.options.BindAddress, err)
	}
	// A name such as localhost can resolve to anything; only the bound address is certain.
	if s.certs == nil && !isLoopbackAddr(listener.Addr()) {
		return nil, errors.Join(errExposedWithoutTLS(listener.Addr().String()), listener.Close())
	}
	s.listening.Do(func() {
		s.addr = listener.Addr()
		close(s.bound)
	})
	if s.certs != nil {
		listener = tls.NewListener(listener, s.certs.tlsConfig())
	}
	return listener, nil
}

func (s *Server) serve(listener net.Listener) error {
	err := s.http.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("extender stopped serving: %w", err)
}

func (s *Server) shutdownAfter(ctx context.Context) error {
	<-ctx.Done()
	// The parent is over, so the shutdown's own time needs a context that is not.
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(stopCtx); err != nil {
		return errors.Join(fmt.Errorf("extender shutdown: %w", err), s.http.Close())
	}
	return nil
}
