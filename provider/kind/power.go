package kind

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// stop is a stop under way.
type stop struct {
	cancel context.CancelFunc
	// forced: the next try kills the container.
	forced bool
}

// start is a start under way. A caller that asks for one meanwhile waits for its end.
type start struct {
	done chan struct{}
	err  error
}

// StartInstance implements provider.CloudProvider. It returns when Docker has started the
// container, or says why it cannot. A caller that goes away earlier leaves the start under way.
func (p *Provider) StartInstance(ctx context.Context, instanceID string) error {
	n, err := p.existing(ctx, instanceID, "start")
	if err != nil {
		return err
	}
	switch state := p.state(n); state {
	case provider.InstanceRunning:
		return nil
	case provider.InstancePending:
		return p.join(ctx, n.ID)
	case provider.InstanceStopped:
	default:
		return &provider.IncorrectStateError{ID: instanceID, State: state, Op: "start"}
	}
	s := p.beginStart(n) //nolint:contextcheck // the start outlives the call that asked for it: it runs in p.life
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join waits for the start of a container that is coming up, if there is one.
func (p *Provider) join(ctx context.Context, containerID string) error {
	p.mu.Lock()
	s := p.starts[containerID]
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginStart has the container started, once for all who ask. The stop before it is over, and is
// told so: it must not take the container for one that its try left running.
func (p *Provider) beginStart(n node) *start {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.starts[n.ID]; s != nil {
		return s
	}
	if before := p.stops[n.ID]; before != nil {
		before.cancel()
		delete(p.stops, n.ID)
	}
	s := &start{done: make(chan struct{})}
	p.starts[n.ID] = s
	go func() {
		ctx, cancel := context.WithTimeout(p.life, startPatience)
		defer cancel()
		s.err = p.startFailure(p.docker.ContainerStart(ctx, n.ID, container.StartOptions{}), n)
		p.mu.Lock()
		delete(p.starts, n.ID)
		p.mu.Unlock()
		close(s.done)
	}()
	return s
}

func (p *Provider) startFailure(err error, n node) error {
	if gone(err) {
		return &provider.InstanceNotFoundError{ID: string(n.id)}
	}
	if err != nil {
		return fmt.Errorf("docker: starting %s: %w", n.id, failure(err, n.Labels))
	}
	return nil
}

// StopInstance implements provider.CloudProvider. The node gets the stop signal of its image, and
// is killed where it does not end within stopGrace; force kills it at once. The stop is repeated
// until the container has ended: Docker may fail to pass the signal on.
func (p *Provider) StopInstance(ctx context.Context, instanceID string, force bool) error {
	n, err := p.existing(ctx, instanceID, "stop")
	if err != nil {
		return err
	}
	switch state := p.state(n); {
	case state == provider.InstanceStopped:
		return nil
	case state == provider.InstancePending && n.State == container.StateCreated:
		// nothing runs yet; its launch starts it
		return &provider.IncorrectStateError{ID: instanceID, State: state, Op: "stop"}
	}
	if force {
		// Said at once and by the caller's own context, so that Docker's refusal is the caller's to see.
		if err := p.kill(ctx, n.ID); err != nil {
			return fmt.Errorf("docker: killing %s: %w", n.id, err)
		}
	}
	p.beginStop(n, force) //nolint:contextcheck // the stop outlives the call that asked for it: it runs in p.life
	return nil
}

// beginStop has the container stopped, unless that is under way.
func (p *Provider) beginStop(n node, force bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.stops[n.ID]; s != nil {
		s.forced = s.forced || force
		return
	}
	ctx, cancel := context.WithTimeout(p.life, stopPatience)
	s := &stop{cancel: cancel, forced: force}
	p.stops[n.ID] = s
	go func() {
		defer cancel()
		p.finishStop(ctx, n.ID, s)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stops[n.ID] == s {
			delete(p.stops, n.ID)
		}
	}()
}

// finishStop tries until the container has ended. Docker's errors are not looked at: what counts is
// whether it runs.
func (p *Provider) finishStop(ctx context.Context, containerID string, s *stop) {
	// Another replica may start it again as soon as it has ended, and that run is not the one to stop.
	run := p.runOf(ctx, containerID)
	for {
		p.mu.Lock()
		forced := s.forced
		p.mu.Unlock()
		if forced {
			_ = p.kill(ctx, containerID)
		} else {
			p.stopOnce(ctx, containerID)
		}
		if p.ended(ctx, containerID, run) {
			return
		}
		select {
		case <-time.After(p.stopPause):
		case <-ctx.Done():
			return
		}
	}
}

// stopOnce returns when the container has ended or Docker says that it could not stop it. A
// connection that Docker leaves without an answer is given up some time after the grace.
func (p *Provider) stopOnce(ctx context.Context, containerID string) {
	ctx, cancel := context.WithTimeout(ctx, 2*p.stopGrace+10*time.Second)
	defer cancel()
	seconds := max(1, int(p.stopGrace/time.Second))
	_ = p.docker.ContainerStop(ctx, containerID, container.StopOptions{Timeout: &seconds})
}

// kill ends the container without asking it. One that has ended, or does not exist, is well.
func (p *Provider) kill(ctx context.Context, containerID string) error {
	err := p.docker.ContainerKill(ctx, containerID, "SIGKILL")
	if err != nil && (gone(err) || p.ended(ctx, containerID, "")) {
		return nil
	}
	return err
}

// runOf returns when the container was last started, in Docker's words; empty where Docker does not
// answer.
func (p *Provider) runOf(ctx context.Context, containerID string) string {
	now, err := p.docker.ContainerInspect(ctx, containerID)
	if err != nil || now.State == nil {
		return ""
	}
	return now.State.StartedAt
}

// ended reports whether Docker says that this run of the container is over, any run where none is
// named. While it says nothing, it may run.
func (p *Provider) ended(ctx context.Context, containerID, run string) bool {
	now, err := p.docker.ContainerInspect(ctx, containerID)
	if err != nil {
		return gone(err)
	}
	return now.State != nil && (!now.State.Running || run != "" && now.State.StartedAt != run)
}

// TerminateInstance implements provider.CloudProvider: the container goes, and with it its disk and
// what was kept of its tags.
func (p *Provider) TerminateInstance(ctx context.Context, instanceID string) error {
	n, err := p.find(ctx, instanceID)
	if provider.IsNotFound(err) {
		if _, buried := p.terminatedByID(v1alpha1.InstanceID(instanceID)); buried {
			return nil
		}
	}
	if err != nil {
		return err
	}
	changed, err := p.changedTags(ctx)
	if err != nil {
		return err
	}
	err = p.docker.ContainerRemove(ctx, n.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil || gone(err):
	case leaving(err):
		return nil // accepted from another caller; the caller that removes it buries it
	default:
		return fmt.Errorf("docker: removing %s: %w", n.id, err)
	}
	p.recordTerminated(*p.instance(n, changed[n.ID].tags))
	// The instance is gone; what may be left of its tags is removed with the next one.
	_ = p.sweepTags(ctx)
	return nil
}

// existing returns the container of an instance that is not terminated. Errors: NotFound,
// IncorrectState (terminated).
func (p *Provider) existing(ctx context.Context, instanceID, op string) (node, error) {
	n, err := p.find(ctx, instanceID)
	if provider.IsNotFound(err) {
		if buried, ok := p.terminatedByID(v1alpha1.InstanceID(instanceID)); ok {
			return node{}, &provider.IncorrectStateError{ID: instanceID, State: buried.State, Op: op}
		}
	}
	return n, err
}
