package kind

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// stopGrace is how long a node has for its own shutdown before Docker kills it: Docker's own
	// default. A drained node takes a second.
	stopGrace = 10 * time.Second
	// stopPause lies between two tries of a stop that left the container running.
	stopPause = time.Second
	// stopPatience is how long a stop is repeated. Longer than the scaler waits before it asks for a
	// stop by force.
	stopPatience = 10 * time.Minute
	// startPatience bounds a start whose caller has gone: Docker starts eight nodes at once on two
	// cores in three seconds.
	startPatience = 2 * time.Minute
	// retention is how long a terminated instance is remembered, as EC2 does.
	retention = time.Hour
)

// Options are what a Provider needs.
type Options struct {
	// Docker is the client of the daemon that runs the kind cluster. Its API version must be 1.41 or
	// later.
	Docker *client.Client
	// StopGrace and StopPause replace the times above where they are set.
	StopGrace, StopPause time.Duration
}

// Provider is a provider.CloudProvider whose instances are the node containers of kind clusters.
type Provider struct {
	docker               *client.Client
	stopGrace, stopPause time.Duration

	// turn is held while the API version is agreed on; agreed is closed when it is.
	turn, agreed chan struct{}

	// life ends with Close, and with it the stops and starts under way.
	life  context.Context
	close context.CancelFunc

	// mu guards the fields below. They are one process's memory: another that asks Docker sees running
	// where this one sees stopping.
	mu sync.Mutex
	// stops are the stops under way by the container's Docker id, starts likewise.
	stops  map[string]*stop
	starts map[string]*start
	// terminated are the instances that this process terminated.
	terminated map[v1alpha1.InstanceID]terminatedInstance
	// keys are what new nodes join with, by the Docker id of the control plane's container.
	keys map[string]joinKey
}

type terminatedInstance struct {
	instance provider.Instance
	at       time.Time
}

var _ provider.CloudProvider = (*Provider)(nil)

// New returns a Provider. Nothing is asked of Docker yet.
func New(o Options) *Provider {
	p := &Provider{
		docker: o.Docker, stopGrace: stopGrace, stopPause: stopPause,
		turn: make(chan struct{}, 1), agreed: make(chan struct{}),
		stops: map[string]*stop{}, starts: map[string]*start{}, terminated: map[v1alpha1.InstanceID]terminatedInstance{},
		keys: map[string]joinKey{},
	}
	if o.StopGrace > 0 {
		p.stopGrace = o.StopGrace
	}
	if o.StopPause > 0 {
		p.stopPause = o.StopPause
	}
	p.life, p.close = context.WithCancel(context.Background())
	return p
}

// FromEnvironment returns a Provider for the daemon that DOCKER_HOST, DOCKER_CERT_PATH and
// DOCKER_TLS_VERIFY name, as for the docker command: /var/run/docker.sock where they are unset.
// Errors: an address that cannot be read, certificates that cannot.
func FromEnvironment() (*Provider, error) {
	// Without negotiation the client would use a newer version of the API than an older daemon has.
	docker, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("DOCKER_HOST: %w", err)
	}
	return New(Options{Docker: docker}), nil
}

// Close ends the stops and starts under way: Docker may finish them, but they are not repeated.
func (p *Provider) Close() { p.close() }

// negotiate has the client agree with the daemon on an API version, once. Each operation begins
// with it, because the client's own way is no way for several at once: it writes the version at its
// first request while others read it.
func (p *Provider) negotiate(ctx context.Context) error {
	select {
	case <-p.agreed:
		return ctx.Err()
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-p.agreed:
		return nil
	default:
	}
	said, err := p.docker.Ping(ctx)
	if err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	p.docker.NegotiateAPIVersionPing(said)
	close(p.agreed)
	return nil
}

// recordTerminated remembers a terminated instance, and forgets those of long ago.
func (p *Provider) recordTerminated(instance provider.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for id, b := range p.terminated {
		if now.Sub(b.at) > retention {
			delete(p.terminated, id)
		}
	}
	instance.State = provider.InstanceTerminated
	p.terminated[instance.ID] = terminatedInstance{instance: instance, at: now}
}

// terminatedByID returns a terminated instance that is still remembered.
func (p *Provider) terminatedByID(id v1alpha1.InstanceID) (*provider.Instance, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.terminated[id]
	if !ok || time.Since(b.at) > retention {
		return nil, false
	}
	return copyOf(&b.instance), true
}
