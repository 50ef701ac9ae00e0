package kind

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// kindNetwork is the network that kind puts its nodes on.
	kindNetwork = "kind"
	// undoPatience bounds the removal of a container whose launch failed.
	undoPatience = 30 * time.Second
)

// LaunchInstance makes a node container and starts it. The node joins by itself at its first boot
// (firstboot/), so nothing is lost where this process ends meanwhile. The same client token makes
// the same container name, which Docker gives to one container only. Errors: InvalidConfig (image
// or cluster do not exist, a mount is refused), InsufficientCapacity (the machine is full),
// Docker's own.
func (p *Provider) LaunchInstance(ctx context.Context, class *v1alpha1.KindNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	if class == nil {
		return nil, &provider.InvalidConfigError{Field: "class", Reason: "is missing"}
	}
	if req.Zone != "" && req.Zone != class.Spec.Cluster {
		return nil, &provider.InvalidConfigError{Field: "zone",
			Reason: fmt.Sprintf("must be %q, the one zone of this cluster", class.Spec.Cluster)}
	}
	token := req.ClientToken
	if token == "" {
		token = rand.Text()
	}
	name := nodeName(class.Spec.Cluster, token)
	if buried, ok := p.terminatedByID(v1alpha1.InstanceID(name)); ok {
		return buried, nil // a token is good for one instance, also when that is gone
	}
	control, err := p.controlPlane(ctx, class.Spec.Cluster)
	if err != nil {
		return nil, err
	}
	key, err := p.key(ctx, control)
	if err != nil {
		return nil, err
	}
	n, err := p.create(ctx, newNode{name: name, token: token, class: class, control: control, tags: req.Tags})
	if err != nil {
		return nil, err
	}
	if n.State == container.StateCreated {
		if err := p.boot(ctx, n, class, key); err != nil {
			p.undo(ctx, n)
			return nil, err
		}
	}
	return p.GetInstance(ctx, name)
}

// nodeName is the name of the node that the token launches: no longer than a host name may be.
func nodeName(cluster, token string) string {
	sum := sha256.Sum256([]byte(token))
	return cluster + "-stratos-" + hex.EncodeToString(sum[:5])
}

// newNode is what a node container is made from.
type newNode struct {
	name, token string
	class       *v1alpha1.KindNodeClass
	control     container.InspectResponse
	tags        map[string]string
}

// create makes the container, or returns the one that the token made before.
func (p *Provider) create(ctx context.Context, want newNode) (node, error) {
	config, host, net := want.config(), want.host(), want.network()
	_, err := p.docker.ContainerCreate(ctx, config, host, net, nil, want.name)
	switch {
	case err == nil || errdefs.IsConflict(err):
	case errdefs.IsNotFound(err):
		return node{}, &provider.InvalidConfigError{Field: "spec.image",
			Reason: fmt.Sprintf("Docker does not have %s; pull it there first (%v)", config.Image, err)}
	case errdefs.IsInvalidArgument(err):
		return node{}, &provider.InvalidConfigError{Field: "spec", Reason: err.Error()}
	default:
		return node{}, fmt.Errorf("docker: making %s: %w", want.name, failure(err, config.Labels))
	}
	n, found := p.find(ctx, want.name)
	if found != nil && err != nil {
		return node{}, fmt.Errorf("docker: making %s: %w", want.name, err) // a container of this name that is not ours
	}
	if found == nil && n.Labels[labelToken] != want.token {
		return node{}, fmt.Errorf("node %s was launched by another request", want.name)
	}
	return n, found
}

func (n newNode) config() *container.Config {
	labels := map[string]string{}
	maps.Copy(labels, n.tags)
	labels[labelCluster], labels[labelRole] = n.class.Spec.Cluster, roleWorker
	labels[labelClass], labels[labelToken] = n.class.Name, n.token
	image := n.control.Config.Image
	switch {
	case n.class.Status.Image != "":
		// What the class's status shows is what the node is made from: drift compares the two.
		image = n.class.Status.Image
	case n.class.Spec.Image != "":
		image = n.class.Spec.Image
	}
	return &container.Config{
		Hostname: n.name, Image: image, Labels: labels, Tty: true,
		Env: slices.DeleteFunc(slices.Clone(n.control.Config.Env), func(e string) bool { return !inherited(e) }),
		// On a volume of its own: overlays cannot be stacked on the container's own file system.
		Volumes: map[string]struct{}{"/var": {}},
	}
}

// inherited: the settings that kind gives every node of a cluster, among those that the control
// plane has.
func inherited(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, "KIND_") || slices.Contains([]string{"http_proxy", "https_proxy", "no_proxy"},
		strings.ToLower(name))
}

// host has the settings of kind's own worker nodes, except that nothing restarts the container: a
// node that powers itself off stays off. What depends on the machine is taken from the control
// plane, for which kind has found it out.
func (n newNode) host() *container.HostConfig {
	init := false
	host := &container.HostConfig{
		Privileged:    true,
		SecurityOpt:   []string{"seccomp=unconfined", "apparmor=unconfined"},
		Tmpfs:         map[string]string{"/tmp": "", "/run": ""},
		Binds:         []string{"/lib/modules:/lib/modules:ro"},
		NetworkMode:   container.NetworkMode(n.networkName()),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CgroupnsMode:  container.CgroupnsModePrivate,
		Init:          &init,
	}
	if kinds := n.control.HostConfig; kinds != nil {
		host.UsernsMode, host.Sysctls, host.Devices = kinds.UsernsMode, kinds.Sysctls, kinds.Devices
		if slices.Contains(kinds.Binds, devMapper) {
			host.Binds = append(host.Binds, devMapper)
		}
	}
	for _, m := range n.class.Spec.ExtraMounts {
		bind := m.HostPath + ":" + m.ContainerPath
		if m.ReadOnly {
			bind += ":ro"
		}
		host.Binds = append(host.Binds, bind)
	}
	return host
}

// devMapper is mounted by kind where Docker's storage is btrfs or ZFS.
const devMapper = "/dev/mapper:/dev/mapper"

func (n newNode) network() *network.NetworkingConfig {
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{n.networkName(): {}}}
}

// networkName is the network of the control plane: kind's, unless its user named another.
func (n newNode) networkName() string {
	if n.control.NetworkSettings == nil || len(n.control.NetworkSettings.Networks) == 0 {
		return kindNetwork
	}
	names := slices.Sorted(maps.Keys(n.control.NetworkSettings.Networks))
	if slices.Contains(names, kindNetwork) {
		return kindNetwork
	}
	return names[0]
}

// boot puts into the container what its first boot needs, and starts it.
func (p *Provider) boot(ctx context.Context, n node, class *v1alpha1.KindNodeClass, key joinKey) error {
	files, err := firstBoot(string(n.id), class, key)
	if err != nil {
		return err
	}
	if err := p.docker.CopyToContainer(ctx, n.ID, "/", files, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("docker: writing into %s: %w", n.id, failure(err, n.Labels))
	}
	err = p.docker.ContainerStart(ctx, n.ID, container.StartOptions{})
	if err != nil {
		return fmt.Errorf("docker: starting %s: %w", n.id, failure(err, n.Labels))
	}
	return nil
}

// undo removes a container that was never started. The caller's context may be what failed it.
func (p *Provider) undo(ctx context.Context, n node) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	now, err := p.find(ctx, string(n.id))
	// Another launch of the same token may have started it meanwhile. One that is left behind is found
	// by its tags and terminated.
	if err == nil && now.State == container.StateCreated {
		_ = p.docker.ContainerRemove(ctx, n.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
}
