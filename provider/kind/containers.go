package kind

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// The labels of a node container other than its tags. kind's own make `kind delete cluster` and
// `kind get nodes` see our nodes.
const (
	labelCluster = "io.x-k8s.kind.cluster"
	labelRole    = "io.x-k8s.kind.role"
	roleWorker   = "worker"
	roleControl  = "control-plane"

	// labelPrefix is that of the labels below, which are no tags.
	labelPrefix = "kind.stratos.sh/"
	// labelClass names the class; only a container that carries it is an instance.
	labelClass = labelPrefix + "class"
	// labelToken is the client token of the launch.
	labelToken = labelPrefix + "token"
)

// containerName is what Docker takes for a name. What does not match is no instance, and never
// becomes part of a request.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

// node is a node container as Docker lists it.
type node struct {
	container.Summary
	id v1alpha1.InstanceID
}

// find returns the instance's container. Errors: NotFound, also for a container that is not ours,
// and Docker's own.
func (p *Provider) find(ctx context.Context, instanceID string) (node, error) {
	if !containerName.MatchString(instanceID) {
		return node{}, &provider.InstanceNotFoundError{ID: instanceID}
	}
	found, err := p.nodes(ctx, filters.Arg("name", "^/"+regexp.QuoteMeta(instanceID)+"$"))
	if err != nil {
		return node{}, err
	}
	for _, n := range found {
		if string(n.id) == instanceID {
			return n, nil
		}
	}
	return node{}, &provider.InstanceNotFoundError{ID: instanceID}
}

// nodes returns the containers of ours that the filters admit, sorted by id, whatever their state.
func (p *Provider) nodes(ctx context.Context, more ...filters.KeyValuePair) ([]node, error) {
	if err := p.negotiate(ctx); err != nil {
		return nil, err
	}
	listed, err := p.docker.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(append(more, filters.Arg("label", labelClass))...),
	})
	if err != nil {
		return nil, fmt.Errorf("docker: listing containers: %w", err)
	}
	var out []node
	for i := range listed {
		// A container that is being made or removed may be listed without a name; the next list has it.
		if len(listed[i].Names) > 0 {
			out = append(out, node{Summary: listed[i], id: v1alpha1.InstanceID(strings.TrimPrefix(listed[i].Names[0], "/"))})
		}
	}
	slices.SortFunc(out, func(a, b node) int { return strings.Compare(string(a.id), string(b.id)) })
	return out, nil
}

// instance translates a container. changed are the tags that were set since its launch.
func (p *Provider) instance(n node, changed map[string]string) *provider.Instance {
	cluster := n.Labels[labelCluster]
	return &provider.Instance{
		ID:             n.id,
		State:          p.state(n),
		ProviderID:     providerID(cluster, string(n.id)),
		Type:           n.Labels[labelClass],
		Zone:           cluster, // one machine, one zone
		PrivateDNSName: string(n.id),
		LaunchTime:     time.Unix(n.Created, 0).UTC(),
		StateReason:    reason(n),
		Tags:           tagsOf(n.Labels, changed),
		// It may lack the files of its first boot; the process that made it is about to start it,
		// or has died.
		Unfinished: n.State == container.StateCreated,
	}
}

// providerID is what kind writes to Node.spec.providerID.
func providerID(cluster, name string) string { return "kind://docker/" + cluster + "/" + name }

func tagsOf(labels, changed map[string]string) map[string]string {
	tags := map[string]string{}
	for key, value := range labels {
		if key != labelCluster && key != labelRole && !strings.HasPrefix(key, labelPrefix) {
			tags[key] = value
		}
	}
	maps.Copy(tags, changed)
	return tags
}

// state translates Docker's word. A stop or start that this process has under way is told from its
// memory: Docker has no words for them.
func (p *Provider) state(n node) provider.InstanceState {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n.State {
	case container.StateCreated, container.StateRestarting:
		return provider.InstancePending
	case container.StateRunning:
		if p.stops[n.ID] != nil {
			return provider.InstanceStopping
		}
		return provider.InstanceRunning
	case container.StateExited:
		if p.starts[n.ID] != nil {
			return provider.InstancePending
		}
		return provider.InstanceStopped
	case container.StateRemoving:
		return provider.InstanceStopping
	}
	// Paused by a person, or dead: Docker failed to remove it. Nothing follows from either but that
	// a person should look.
	return provider.InstanceUnknown
}

// reason is Docker's word on how a container ended, without the time since, which would change with
// every look.
func reason(n node) string {
	if n.State == container.StateRunning {
		return ""
	}
	words, _, found := strings.Cut(n.Status, ")")
	if found {
		words += ")"
	}
	return words
}

func copyOf(i *provider.Instance) *provider.Instance {
	c := *i
	c.Tags = maps.Clone(i.Tags)
	return &c
}

// carries reports whether the tags hold all that are wanted.
func carries(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := tags[key]; !ok || got != value {
			return false
		}
	}
	return true
}
