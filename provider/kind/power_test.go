package kind

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/providertest"
)

// TestAStopThatDockerLostIsRepeated: Docker 20.10 was seen to fail to pass the signal on, and the
// warm-up waited forever.
func TestAStopThatDockerLostIsRepeated(t *testing.T) {
	for name, answered := range map[string]*refusal{
		"with an error": {http.StatusInternalServerError,
			"cannot stop container: tried to kill container, but did not receive an exit event"},
		"as if it had ended":            {http.StatusNoContent, ""},
		"as if it had not been running": {http.StatusNotModified, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			p := d.provider(t)
			id := launched(t, p, testClass(), "one").ID
			var lost atomic.Int32
			d.mu.Lock()
			d.refuse = func(_, path string) *refusal {
				if strings.HasSuffix(path, "/stop") && lost.Add(1) <= 3 {
					return answered
				}
				return nil
			}
			d.mu.Unlock()
			if err := p.StopInstance(t.Context(), string(id), false); err != nil {
				t.Fatal(err)
			}
			providertest.Poll(p)(t, id, provider.InstanceStopped)
			if n := lost.Load(); n != 4 {
				t.Errorf("asked %d times, want the 3 that were lost and one more", n)
			}
		})
	}
}

// TestAStopTouchesTheRunItWasMeantForOnly: another replica may start the node as soon as it has
// ended.
func TestAStopTouchesTheRunItWasMeantForOnly(t *testing.T) {
	d := newDaemon(t)
	p, other := d.provider(t), d.provider(t)
	id := launched(t, p, testClass(), "one").ID
	// Docker loses the first stop; before the second comes, the node has powered itself off and was
	// started again.
	var restarted atomic.Bool
	d.mu.Lock()
	d.refuse = func(_, path string) *refusal {
		if strings.HasSuffix(path, "/stop") && restarted.CompareAndSwap(false, true) {
			d.set(string(id), func(b *box) { b.over(0) })
			if err := other.StartInstance(t.Context(), string(id)); err != nil {
				t.Error(err)
			}
			return &refusal{http.StatusInternalServerError, "lost"}
		}
		return nil
	}
	d.mu.Unlock()
	if err := p.StopInstance(t.Context(), string(id), false); err != nil {
		t.Fatal(err)
	}
	providertest.Poll(p)(t, id, provider.InstanceRunning)
	if n := d.count("POST /containers/" + d.box(string(id)).id + "/stop"); n != 1 {
		t.Errorf("stopped %d times: the second run was none of its business", n)
	}
}

func TestAPlainStopEndsByDockersKillWhenTheGraceIsOver(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	p.stopGrace = time.Second
	id := launched(t, p, testClass(), "one").ID
	d.set(string(id), func(b *box) { b.deaf = true })
	if err := p.StopInstance(t.Context(), string(id), false); err != nil {
		t.Fatal(err)
	}
	providertest.Poll(p)(t, id, provider.InstanceStopped)
}

// TestANodeThatPowersItselfOffStaysOff, and says how it ended: systemd in a container dies of
// SIGINT.
func TestANodeThatPowersItselfOffStaysOff(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	id := launched(t, p, testClass(), "one").ID
	d.set(string(id), func(b *box) { b.over(130) })
	got, err := p.GetInstance(t.Context(), string(id))
	if err != nil || got.State != provider.InstanceStopped || got.StateReason != "Exited (130)" {
		t.Errorf("%s because of %q, %v", got.State, got.StateReason, err)
	}
}

func TestStatesInDockersWords(t *testing.T) {
	for word, want := range map[string]provider.InstanceState{
		container.StateCreated: provider.InstancePending, container.StateRestarting: provider.InstancePending,
		container.StateRunning: provider.InstanceRunning, container.StateExited: provider.InstanceStopped,
		container.StateRemoving: provider.InstanceStopping, container.StatePaused: provider.InstanceUnknown,
		container.StateDead: provider.InstanceUnknown, "of a later Docker": provider.InstanceUnknown,
	} {
		d := newDaemon(t)
		p := d.provider(t)
		id := string(launched(t, p, testClass(), "one").ID)
		d.set(id, func(b *box) { b.state = word })
		if got, err := p.GetInstanceState(t.Context(), id); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", word, got, err, want)
		}
		if err := p.StartInstance(t.Context(), id); want == provider.InstanceUnknown && !provider.IsIncorrectState(err) {
			t.Errorf("start of one that is %s: %v, want an IncorrectStateError", word, err)
		}
	}
}

// TestAStartGoesOnWithoutItsCaller: all callers share one start, and one that gives up does not
// cancel it for the others.
func TestAStartGoesOnWithoutItsCaller(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	id := string(launched(t, p, testClass(), "one").ID)
	d.set(id, func(b *box) { b.over(0) })
	asked, released := make(chan struct{}), make(chan struct{})
	// A second caller that read the state before the release and comes on after it asks Docker again,
	// which answers that the container runs.
	var once sync.Once
	d.mu.Lock()
	d.refuse = func(method, path string) *refusal {
		if strings.HasSuffix(path, "/start") {
			once.Do(func() { close(asked) })
			<-released
		}
		return nil
	}
	d.mu.Unlock()
	impatient, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- p.StartInstance(impatient, id) }()
	<-asked
	if state, err := p.GetInstanceState(t.Context(), id); err != nil || state != provider.InstancePending {
		t.Errorf("while Docker starts it it is %s, %v", state, err)
	}
	n, err := p.existing(t.Context(), id, "start")
	if err != nil {
		t.Fatal(err)
	}
	if one, other := p.beginStart(n), p.beginStart(n); one != other {
		t.Error("two callers have a start each")
	}
	go func() { second <- p.StartInstance(t.Context(), id) }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who gave up: %v", err)
	}
	close(released)
	if err := <-second; err != nil {
		t.Errorf("the one who waited: %v", err)
	}
	if state, err := p.GetInstanceState(t.Context(), id); err != nil || state != provider.InstanceRunning {
		t.Errorf("then it is %s, %v", state, err)
	}
}

func TestARefusedStart(t *testing.T) {
	for name, c := range map[string]struct {
		answer *refusal
		is     func(error) bool
	}{
		"the disk is full": {&refusal{http.StatusInternalServerError, "no space left on device"},
			provider.IsInsufficientCapacity},
		"it was removed just now": {&refusal{http.StatusNotFound, "No such container"}, provider.IsNotFound},
		"Docker's own trouble":    {&refusal{http.StatusInternalServerError, "driver failed"}, isPlain},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			p := d.provider(t)
			id := string(launched(t, p, testClass(), "one").ID)
			d.set(id, func(b *box) { b.over(0) })
			d.mu.Lock()
			d.refuse = refusing("POST", "/start", c.answer)
			d.mu.Unlock()
			if err := p.StartInstance(t.Context(), id); err == nil || !c.is(err) {
				t.Errorf("error %v", err)
			}
			if state, err := p.GetInstanceState(t.Context(), id); err != nil || state != provider.InstanceStopped {
				t.Errorf("then it is %s, %v", state, err)
			}
		})
	}
}

// TestContainersOfOthersAreNoInstances: the control plane, a worker that kind made, one that has
// our tags only.
func TestContainersOfOthersAreNoInstances(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	d.mu.Lock()
	d.containers = append(d.containers, &box{id: "beef", name: "lab-worker", state: container.StateRunning,
		ended: make(chan struct{}),
		config: container.Config{Labels: map[string]string{labelCluster: "lab", labelRole: roleWorker,
			"managed-by": "stratos"}}})
	d.mu.Unlock()
	for _, name := range []string{"lab-control-plane", "lab-worker", "beef", controlID} {
		for what, call := range map[string]func() error{
			"start":     func() error { return p.StartInstance(t.Context(), name) },
			"stop":      func() error { return p.StopInstance(t.Context(), name, true) },
			"terminate": func() error { return p.TerminateInstance(t.Context(), name) },
			"tag":       func() error { return p.UpdateInstanceTags(t.Context(), name, map[string]string{"a": "b"}) },
		} {
			if err := call(); !provider.IsNotFound(err) {
				t.Errorf("%s %s: %v, want an InstanceNotFoundError", what, name, err)
			}
		}
	}
	if all, err := p.ListInstances(t.Context(), nil); err != nil || len(all) != 0 {
		t.Errorf("%d instances are listed, %v", len(all), err)
	}
	if n := d.count("DELETE") + d.count("POST /containers/"); n != 0 {
		t.Errorf("%d calls changed them", n)
	}
}

// TestAReplicaKnowsTheTerminatedOfItsOwnOnly: to another the instance is not found, which says as
// much.
func TestAReplicaKnowsTheTerminatedOfItsOwnOnly(t *testing.T) {
	d := newDaemon(t)
	p, other := d.provider(t), d.provider(t)
	id := string(launched(t, p, testClass(), "one").ID)
	if err := p.TerminateInstance(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	again, err := p.LaunchInstance(t.Context(), testClass(), provider.LaunchRequest{ClientToken: "one"})
	if err != nil || again.State != provider.InstanceTerminated {
		t.Errorf("its token again: %v, %v; want the terminated instance", again, err)
	}
	if err := other.TerminateInstance(t.Context(), id); !provider.IsNotFound(err) {
		t.Errorf("terminated by another: %v, want an InstanceNotFoundError", err)
	}
}
