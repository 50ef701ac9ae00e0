package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers the API on the address until the context ends. With machines, they run as long.
// ready, where it is not nil, is told the address once it listens, so that ":0" can be used.
func Serve(ctx context.Context, address string, cloud *Cloud, machines *Machines, ready func(net.Addr)) error {
	return ServeHandler(ctx, address, Handler(cloud), machines, ready)
}

// ServeHandler is Serve for whatever API stands before the cloud of the machines.
func ServeHandler(ctx context.Context, address string, handler http.Handler, machines *Machines,
	ready func(net.Addr)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("fake cloud: %w", err)
	}
	if ready != nil {
		ready(listener.Addr())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: handler,
		// Slow clients must not hold connections forever. FaultLatency is below the write limit in sane
		// tests.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	ended := make(chan error, 2)
	running := 1
	go func() { ended <- server.Serve(listener) }()
	if machines != nil {
		running++
		go func() { ended <- machines.Start(ctx) }()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-ended:
		running--
	}
	cancel()
	_ = server.Close()
	for range running {
		if err := <-ended; failure == nil {
			failure = err
		}
	}
	if errors.Is(failure, http.ErrServerClosed) || errors.Is(failure, context.Canceled) {
		return nil
	}
	return failure
}
