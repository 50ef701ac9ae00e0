// Package aws keeps instances in EC2. It is the only package that knows the AWS SDK, and it knows
// no endpoint: any server that speaks the protocols of EC2 and EKS does, by the SDK's own
// AWS_ENDPOINT_URL_EC2 and AWS_ENDPOINT_URL_EKS.
package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/price"
)

// Options are what New needs.
type Options struct {
	// Config is the SDK's: credentials, endpoint, and the region of classes that name none.
	Config aws.Config
	// ClusterName is the EKS cluster that nodes join whose class names none.
	ClusterName string
	// Calls measures the calls; the limits of each region are made from Limits.
	Calls  *limiter.Calls
	Limits map[limiter.Operation]limiter.Limit
	// Resources bound the instances that the calls of each region name, in addition to Limits.
	// Operations without one have no bound.
	Resources map[limiter.Operation]limiter.Limit
	// Regions returns the regions that classes name and those in which Nodes of pools are; "" is that
	// of Config. It is asked until it has answered once, and again to find out which regions nothing
	// uses. nil: there are none.
	Regions func(ctx context.Context) ([]string, error)
	// Minor is the cluster's minor version, such as 1.36, for images that are made for one. nil:
	// classes with an alias cannot be resolved.
	Minor func(ctx context.Context) (string, error)
	// NodeImages returns the value of the label LabelNodeImage of each control-plane Node, by the
	// Node's name; "" where a Node has none. nil: classes with nodeImage cannot be resolved.
	NodeImages func(ctx context.Context) (map[string]string, error)
	// ClusterInfo returns endpoint and certificate authority of the cluster as kubeadm publishes them,
	// for classes of the family Kubeadm. nil: they have to say it.
	ClusterInfo func(ctx context.Context) (v1alpha1.BootstrapCluster, error)
	// Prices are those of the user; nil: classes get no price.
	Prices *price.Book
	// BatchSize is told how many instances went into a call. nil: not told.
	BatchSize func(op limiter.Operation, n int)
}

// Load reads the SDK's configuration from where it always stands: environment, shared files, and
// the pod's identity.
func Load(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("AWS configuration: %w", err)
	}
	return cfg, nil
}

// Cloud implements provider.CloudProvider on EC2, and launches from AWSNodeClass.
type Cloud struct {
	options Options
	index   *index
	// minor is nil where the cluster's version is unknown.
	minor *minors
	// nodeImages are nil where the cluster's version or its control-plane Nodes are unknown.
	nodeImages *nodeImages
	// clusters are what EKS says of the cluster that nodes join.
	clusters *clusters

	// mu guards the fields below.
	mu sync.Mutex
	// regions are those that were asked for so far and that something uses.
	regions map[regionName]*region
	review  review
}

// regionName is a region such as us-east-1.
type regionName string

var _ provider.CloudProvider = (*Cloud)(nil)

// New returns a Cloud. Nothing is asked of EC2 yet.
func New(o Options) *Cloud {
	if o.BatchSize == nil {
		o.BatchSize = func(limiter.Operation, int) {}
	}
	o.Config.APIOptions = append(slices.Clone(o.Config.APIOptions), plainBody)
	c := &Cloud{options: o, index: newIndex(), clusters: newClusters(o), regions: map[regionName]*region{},
		review: newReview()}
	if o.Minor != nil {
		c.minor = &minors{ask: o.Minor}
	}
	if o.Minor != nil && o.NodeImages != nil {
		c.nodeImages = &nodeImages{labels: o.NodeImages, minor: &minors{ask: o.Minor}}
	}
	return c
}

// BatchSizes returns a BatchSize that fills the metric, and registers that.
func BatchSizes(registerer prometheus.Registerer) (func(limiter.Operation, int), error) {
	sizes := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "stratos_cloud_provider_batch_size",
		Help:    "Instances in one call to the cloud, for calls that may hold many.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500},
	}, []string{"provider", "operation"})
	if err := registerer.Register(sizes); err != nil {
		return nil, fmt.Errorf("cloud provider metrics: %w", err)
	}
	return func(op limiter.Operation, n int) { sizes.WithLabelValues("aws", string(op)).Observe(float64(n)) }, nil
}

// in returns the region of that name, "" for the configuration's own.
func (c *Cloud) in(name regionName) (*region, error) {
	if name == "" {
		name = regionName(c.options.Config.Region)
	}
	if name == "" {
		return nil, &provider.InvalidConfigError{Field: fieldRegion,
			Reason: "is not set, and neither is AWS_REGION where Stratos runs"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.regions[name]
	if r == nil {
		r = newRegion(name, c.options, c.index, c.minor, c.nodeImages)
		c.regions[name] = r
	}
	return r, nil
}

// of returns the region of an instance. One that is not known yet is looked for everywhere:
// it is found in no region only where every region in use has answered.
func (c *Cloud) of(ctx context.Context, id string) (*region, error) {
	if err := ctx.Err(); err != nil && wellFormed(id) {
		return nil, err
	}
	if !wellFormed(id) {
		return nil, &provider.InstanceNotFoundError{ID: id}
	}
	if known, ok := c.index.get(id); ok {
		return c.in(known.region)
	}
	if name, ok := c.index.place(id); ok {
		return c.in(name)
	}
	all, err := c.everywhere(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	var failed error
	for _, r := range all {
		_, err := r.describe(ctx, id)
		switch {
		case err == nil:
			return r, nil
		case !provider.IsNotFound(err) && c.isUsed(r):
			failed = fmt.Errorf("region %s: %w", r.name, err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, &provider.InstanceNotFoundError{ID: id}
}

// StopInstance implements provider.CloudProvider. An instance that was launched to hibernate does
// so, unless it is forced.
func (c *Cloud) StopInstance(ctx context.Context, instanceID string, force bool) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	if force {
		return outcome(r.forcedStops.do(ctx, instanceID))
	}
	known, ok := c.index.get(instanceID)
	if !ok {
		if _, err := r.describe(ctx, instanceID); err != nil {
			return err
		}
		known, _ = c.index.get(instanceID)
	}
	if known.hibernates {
		err := outcome(r.hibernations.do(ctx, instanceID))
		if !provider.IsInvalidConfig(err) {
			return err
		}
		// It cannot after all, for example because its agent is missing: a plain stop is what is left, as
		// EC2 itself does it.
	}
	return outcome(r.stops.do(ctx, instanceID))
}

// TerminateInstance implements provider.CloudProvider.
func (c *Cloud) TerminateInstance(ctx context.Context, instanceID string) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	return outcome(r.terminations.do(ctx, instanceID))
}

// GetInstanceState implements provider.CloudProvider.
func (c *Cloud) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	i, err := c.GetInstance(ctx, instanceID)
	if err != nil {
		return provider.InstanceUnknown, err
	}
	return i.State, nil
}

// GetInstance implements provider.CloudProvider.
func (c *Cloud) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	return r.describe(ctx, instanceID)
}

// UpdateInstanceTags implements provider.CloudProvider.
func (c *Cloud) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	return r.tag(ctx, instanceID, tags)
}

// wellFormed reports whether EC2 could have an instance of that id; with any other in it a call for
// many would be refused.
func wellFormed(id string) bool {
	rest, ok := strings.CutPrefix(id, "i-")
	return ok && rest != "" && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// index remembers what the calls returned about instances: their region does not change.
type index struct {
	// mu guards known.
	mu    sync.Mutex
	known map[string]traits
	// places are the regions of instances that are known only by their Nodes.
	places map[string]place
}

type traits struct {
	region     regionName
	kind, zone string
	hibernates bool
	// seen is when a call last returned the instance; gone: as terminated.
	seen time.Time
	gone bool
	// retyped is when a call of ours last changed its type; zero for never.
	retyped time.Time
	// binding is what reservation it does not start without, bound when a call of ours last said so.
	binding string
	bound   time.Time
}

// forgetAfter is how long an instance is remembered that no call returns any more: EC2 itself lists
// a terminated one for an hour.
const forgetAfter = 2 * time.Hour

func newIndex() *index { return &index{known: map[string]traits{}, places: map[string]place{}} }

func (x *index) get(id string) (traits, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, ok := x.known[id]
	return t, ok
}

func (x *index) put(id v1alpha1.InstanceID, t traits) {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.known[string(id)]
	if t.seen.Sub(was.retyped) < readsLag {
		t.kind, t.retyped = was.kind, was.retyped
	}
	if t.seen.Sub(was.bound) < readsLag {
		t.binding, t.bound = was.binding, was.bound
	}
	x.known[string(id)] = t
}

// prune forgets what is gone from a region that has just answered.
func (x *index) prune(in regionName, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, t := range x.known {
		if t.region == in && now.Sub(t.seen) > forgetAfter {
			delete(x.known, id)
		}
	}
	maps.DeleteFunc(x.places, func(_ string, p place) bool { return now.Sub(p.seen) > forgetAfter })
}

// has reports whether an instance that is not gone is known in the region.
func (x *index) has(name regionName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.known {
		if t.region == name && !t.gone {
			return true
		}
	}
	return false
}

// offering is the zone, the type and the reservation that an instance needs, "" where they are not
// known.
func (x *index) offering(id string) string {
	t, ok := x.get(id)
	if !ok {
		return ""
	}
	if t.binding == "" {
		return t.zone + "/" + t.kind
	}
	return t.zone + "/" + t.kind + "/" + t.binding
}

// outcome is what a call returns that returns nothing.
func outcome(_ nothing, err error) error { return err }
