package kind

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/stratos-sh/stratos/provider"
)

const (
	// keyLife is how long a node may take to join with a key; a join that Docker delays for minutes
	// must still find it valid.
	keyLife = 2 * time.Hour
	// keyUse is how long a key is handed out: a burst of launches makes one, and each is used with an
	// hour to spare.
	keyUse = time.Hour
)

// joinKey is what a node needs to join a cluster.
type joinKey struct {
	endpoint, token, caHash string
	made                    time.Time
}

// joinCommand is what kubeadm prints for a person to type. The hash is that of the cluster's CA, so
// that the node trusts no one else.
var joinCommand = regexp.MustCompile(
	`kubeadm join (\S+) --token ([a-z0-9]{6}\.[a-z0-9]{16}) --discovery-token-ca-cert-hash (sha256:[0-9a-f]{64})`,
)

// controlPlane returns the container of the cluster's control plane, the first by name where there
// are several. Errors: InvalidConfig where there is none, another where none runs.
func (p *Provider) controlPlane(ctx context.Context, cluster string) (container.InspectResponse, error) {
	if err := p.negotiate(ctx); err != nil {
		return container.InspectResponse{}, err
	}
	listed, err := p.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", labelCluster+"="+cluster), filters.Arg("label", labelRole+"="+roleControl))})
	if err != nil {
		return container.InspectResponse{}, fmt.Errorf("docker: listing containers: %w", err)
	}
	if len(listed) == 0 {
		return container.InspectResponse{}, &provider.InvalidConfigError{Field: "spec.cluster",
			Reason: fmt.Sprintf("this Docker daemon runs no kind cluster %q", cluster)}
	}
	slices.SortFunc(listed, func(a, b container.Summary) int {
		return strings.Compare(strings.Join(a.Names, ","), strings.Join(b.Names, ","))
	})
	for i := range listed {
		if listed[i].State == container.StateRunning {
			found, err := p.docker.ContainerInspect(ctx, listed[i].ID)
			if err != nil {
				return container.InspectResponse{}, fmt.Errorf("docker: reading the control plane of %s: %w", cluster, err)
			}
			return found, nil
		}
	}
	return container.InspectResponse{}, fmt.Errorf("the control plane of the kind cluster %s is %s", cluster,
		listed[0].State)
}

// key returns what a new node joins with, made by the control plane where the last one has grown
// old.
func (p *Provider) key(ctx context.Context, control container.InspectResponse) (joinKey, error) {
	p.mu.Lock()
	known, ok := p.keys[control.ID]
	p.mu.Unlock()
	if ok && time.Since(known.made) < keyUse {
		return known, nil
	}
	said, err := p.run(ctx, control.ID, "kubeadm", "token", "create", "--kubeconfig", "/etc/kubernetes/admin.conf",
		"--ttl", keyLife.String(), "--description", "nodes that Stratos launches", "--print-join-command")
	if err != nil {
		return joinKey{}, fmt.Errorf("a token for new nodes: %w", err)
	}
	parts := joinCommand.FindStringSubmatch(said)
	if parts == nil {
		return joinKey{}, fmt.Errorf("a token for new nodes: kubeadm answered %.200q", said)
	}
	made := joinKey{endpoint: parts[1], token: parts[2], caHash: parts[3], made: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[control.ID] = made
	return made, nil
}

// run runs a command in a container and returns what it printed. A command that fails is an error
// with what it said.
func (p *Provider) run(ctx context.Context, containerID string, command ...string) (string, error) {
	made, err := p.docker.ContainerExecCreate(ctx, containerID, container.ExecOptions{Cmd: command, AttachStdout: true,
		AttachStderr: true})
	if err != nil {
		return "", fmt.Errorf("docker: %s: %w", command[0], err)
	}
	stream, err := p.docker.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return "", fmt.Errorf("docker: %s: %w", command[0], err)
	}
	defer stream.Close()
	// The stream knows no context: closing it ends the read.
	ended := context.AfterFunc(ctx, stream.Close)
	defer ended()
	var out, errs bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &errs, stream.Reader); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("docker: reading from %s: %w", command[0], err)
	}
	done, err := p.docker.ContainerExecInspect(ctx, made.ID)
	if err != nil {
		return "", fmt.Errorf("docker: %s: %w", command[0], err)
	}
	if done.ExitCode != 0 {
		return "", fmt.Errorf("%s ended with %d: %s", command[0], done.ExitCode, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
