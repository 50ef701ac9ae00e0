package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Docker runs the docker command and returns what it prints.
func Docker(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(failure.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// MustDocker is Docker for what cannot fail.
func MustDocker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := Docker(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Containers are the names of a pool's node containers, in all states, sorted.
func (l *Cluster) Containers(ctx context.Context, pool string) ([]string, error) {
	return l.containers(ctx, "-a", "--filter", "label=stratos.sh/pool="+pool)
}

// Stopped are those of them that do not run any more.
func (l *Cluster) Stopped(ctx context.Context, pool string) ([]string, error) {
	return l.containers(ctx, "-a", "--filter", "status=exited", "--filter", "label=stratos.sh/pool="+pool)
}

// allStopped are the names of a pool's node containers, sorted, and an error while one of them
// runs.
func (l *Cluster) allStopped(ctx context.Context, pool string) ([]string, error) {
	all, err := l.containersAs(ctx, "{{.Names}}={{.State}}", "-a", "--filter", "label=stratos.sh/pool="+pool)
	for i, found := range all {
		name, state, _ := strings.Cut(found, "=")
		if state == "running" {
			err = errors.Join(err, fmt.Errorf("container %s runs", name))
		}
		all[i] = name
	}
	slices.Sort(all)
	return all, err
}

// Instances are the names of all node containers that Stratos made for this cluster, in all states,
// sorted.
func (l *Cluster) Instances(ctx context.Context) ([]string, error) { return l.containers(ctx, "-a") }

func (l *Cluster) containers(ctx context.Context, filter ...string) ([]string, error) {
	return l.containersAs(ctx, "{{.Names}}", filter...)
}

func (l *Cluster) containersAs(ctx context.Context, format string, filter ...string) ([]string, error) {
	args := append([]string{"ps", "--format", format, "--filter", "label=managed-by=stratos", "--filter",
		"label=stratos.sh/cluster=" + l.Name}, filter...)
	out, err := Docker(ctx, args...)
	found := strings.Fields(out)
	slices.Sort(found)
	return found, err
}

// Event is one of Docker's about a container.
type Event struct {
	Action string
	Node   string
	Pool   string
	At     time.Time
}

// Events records what happens to the cluster's instances until the test ends.
type Events struct {
	mu   sync.Mutex // guards all: the reader appends while the test reads
	all  []Event
	done chan struct{}
}

// WatchContainers begins to record. When it returns, nothing that follows is missed.
func (l *Cluster) WatchContainers(t *testing.T) *Events {
	t.Helper()
	now := MustDocker(t, "info", "-f", "{{.SystemTime}}")
	ctx, stop := context.WithCancel(context.Background())
	// What happens before the daemon has taken the request is in its buffer, hence --since.
	cmd := exec.CommandContext(ctx, "docker", "events", "--since", now, "--filter", "type=container", "--filter",
		"label=managed-by=stratos",
		"--filter", "label=stratos.sh/cluster="+l.Name, "--filter", "event=start", "--filter", "event=die", "--filter",
		"event=create",
		"--filter", "event=destroy", "--format", "{{json .}}")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &Events{done: make(chan struct{})}
	go func() {
		defer close(e.done)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			e.add(lines.Bytes())
		}
	}()
	t.Cleanup(func() {
		stop()
		<-e.done
		_ = cmd.Wait() // it was killed
	})
	return e
}

func (e *Events) add(line []byte) {
	read := struct {
		Action   string
		TimeNano int64
		Actor    struct{ Attributes map[string]string }
	}{}
	if json.Unmarshal(line, &read) != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, Event{Action: read.Action, Node: read.Actor.Attributes["name"],
		Pool: read.Actor.Attributes["stratos.sh/pool"], At: time.Unix(0, read.TimeNano)})
}

// Of returns the recorded events of an action about a pool's nodes, oldest first.
func (e *Events) Of(action, pool string) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Event
	for _, event := range e.all {
		if event.Action == action && event.Pool == pool {
			found = append(found, event)
		}
	}
	return found
}

// Push tags the suite's web server as an image of the registry and pushes it. It returns the name
// by which nodes pull it.
func (l *Cluster) Push(t *testing.T, name string) string {
	t.Helper()
	port := MustDocker(t, "port", l.registry, "5000/tcp")
	local := strings.Fields(port)[0] + "/" + name
	MustDocker(t, "tag", l.webImage, local)
	MustDocker(t, "push", "-q", local)
	MustDocker(t, "rmi", local)
	return path.Join(l.registry+":5000", name)
}

// Pulls counts how often a containerd asked the registry for the image: once for each pull. What it
// has already, a kubelet does not pull.
func (l *Cluster) Pulls(t *testing.T, name string) int {
	t.Helper()
	repository, _, _ := strings.Cut(name, ":")
	count := 0
	for line := range strings.Lines(MustDocker(t, "logs", l.registry)) {
		if strings.HasPrefix(line, "HEAD /v2/"+repository+"/manifests/") {
			count++
		}
	}
	return count
}
