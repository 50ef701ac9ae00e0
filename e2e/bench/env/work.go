package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
)

const startInstances = ec2test.StartInstances

// Clients is how many create objects at once: enough that the API server is what limits it.
const Clients = 16

// CreateAll creates the objects, several at a time, and returns when each was about to be sent, in
// their order.
func CreateAll[T client.Object](ctx context.Context, c client.Client, objects []T) ([]time.Time, error) {
	at := make([]time.Time, len(objects))
	next := make(chan int)
	errs := make([]error, Clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range Clients {
		wg.Go(func() {
			for i := range next {
				at[i] = time.Now()
				if err := c.Create(ctx, objects[i]); err != nil {
					errs[worker] = fmt.Errorf("create %s: %w", objects[i].GetName(), err)
					cancel()
					return
				}
			}
		})
	}
	for i := range objects {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return at, errors.Join(append(errs, context.Cause(ctx))...)
}

// Pause waits so long, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freePort is one of loopback that nothing listens on now.
func freePort() (string, error) {
	address, err := controlplane.FreeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return port, err
}
