package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// clusterName and clusterUID are ours; instances of other clusters carry strangerName, or our name
// and strangerUID.
const (
	clusterName  = "here"
	strangerName = "elsewhere"
	clusterUID   = "uid-here"
	strangerUID  = "uid-of-a-cluster-with-our-name"

	// tagLaunch tells the launch and the UID of its pool. strangerLaunch is one of that other cluster,
	// whose pool has our pool's name.
	tagLaunch      = "stratos.sh/launch"
	strangerLaunch = "0.uid-of-its-pool-a"
)

var errUnreachable = errors.New("the cloud does not answer")

// moment is an instance as it was from some time on. Reads of the cloud show moments that are past.
type moment struct {
	at    time.Time
	state provider.InstanceState
	tags  map[string]string
	kind  string
	// uses are the capacity reservations that its starts use.
	uses v1alpha1.CapacityReservation
}

// instance is one machine of the cloud.
type instance struct {
	id       v1alpha1.InstanceID
	number   int
	zone     string
	region   string
	token    string
	launched time.Time
	moments  []moment
	// boot counts boots; what belongs to an earlier one comes to nothing. up: the kubelet of this boot
	// reports.
	boot int
	up   bool
	// network: the network of this boot is up, since networkAt; readyAt is when its kubelet first
	// reported Ready.
	network            bool
	networkAt, readyAt time.Time
	// selfStop: its user data powers it off at the end of the first boot.
	selfStop bool
	// hangs: its stop does not end unless it is forced. mute: the kubelet of this boot never reports.
	hangs, mute bool
	// everReady: some kubelet of it reported Ready. meddled is when others last touched it.
	everReady bool
	meddled   time.Time
	// started is when Stratos last had a start of it accepted, refused when one was refused for
	// capacity.
	started, refused time.Time
	// condemned is when Stratos first asked for its end, answered or not.
	condemned time.Time
	// reason holds the cloud's words for the last change of the state.
	reason string
	// unseenUntil is until when no read shows it.
	unseenUntil time.Time
	// died is the boot in which its machine died: the cloud shows it running all the same.
	died int
	// renames is how often its kubelet has registered under another name than before.
	renames int
	// change is the last call for a change of its type in a start that was not refused.
	// refusedTypes are the types that the cloud refused it.
	change       change
	refusedTypes map[string]typeRefusal
	// runsIn is the reservation in which it has power, "" for On-Demand. refusedSeat is when a
	// start was last refused because a reservation had no room.
	runsIn      string
	refusedSeat time.Time
}

func (i *instance) state() provider.InstanceState { return i.moments[len(i.moments)-1].state }
func (i *instance) kind() string                  { return i.moments[len(i.moments)-1].kind }
func (i *instance) uses() v1alpha1.CapacityReservation {
	return i.moments[len(i.moments)-1].uses
}
func (i *instance) tags() map[string]string { return i.moments[len(i.moments)-1].tags }
func (i *instance) pool() string            { return i.tags()[v1alpha1.LabelPool] }
func (i *instance) node() string {
	if i.renames > 0 {
		return fmt.Sprintf("node-%s-%d", i.id, i.renames)
	}
	return "node-" + string(i.id)
}
func (i *instance) providerID() string { return "model:///" + i.zone + "/" + string(i.id) }
func (i *instance) bootID() string     { return fmt.Sprintf("%s-%d", i.id, i.boot) }
func (i *instance) gone() bool         { return i.state() == provider.InstanceTerminated }

// ours reports whether the tags say that the instance is one of this cluster's pools.
func ours(tags map[string]string) bool {
	return ofThisCluster(tags) && tags[v1alpha1.LabelPool] != ""
}

func ofThisCluster(tags map[string]string) bool {
	uid := tags[v1alpha1.TagClusterUID]
	return tags[v1alpha1.TagManagedBy] == v1alpha1.ManagedByStratos && tags[v1alpha1.TagCluster] == clusterName &&
		(uid == clusterUID || uid == "" && tags[tagLaunch] != strangerLaunch)
}

// cloud plays a cloud: its instances, and reads that lag behind them.
type cloud struct {
	w         *World
	instances []*instance
}

func newCloud(w *World) *cloud {
	c := &cloud{w: w}
	for _, tags := range []map[string]string{
		{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: strangerName, v1alpha1.LabelPool: "a",
			v1alpha1.LabelState: "standby"},
		{v1alpha1.LabelPool: "a"},
		{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.LabelPool: "a"},
		{
			v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: clusterName, v1alpha1.LabelPool: "a",
			v1alpha1.LabelState: "standby", v1alpha1.TagClusterUID: strangerUID, tagLaunch: strangerLaunch,
		},
		{ // of an earlier version
			v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: clusterName, v1alpha1.LabelPool: "a",
			v1alpha1.LabelState: "standby", tagLaunch: strangerLaunch,
		},
	} {
		i := c.add("", tags)
		i.moments[0].state = provider.InstanceRunning
	}
	return c
}

func (c *cloud) add(token string, tags map[string]string) *instance {
	n := len(c.instances)
	i := &instance{
		id: v1alpha1.InstanceID(fmt.Sprintf("i-%03d", n)), number: n, refusedTypes: map[string]typeRefusal{},
		zone: zoneNames("")[n%2], token: token, launched: c.w.now,
		moments: []moment{{at: c.w.now, state: provider.InstancePending, tags: maps.Clone(tags), kind: instanceType}},
	}
	c.instances = append(c.instances, i)
	return i
}

func (c *cloud) find(id v1alpha1.InstanceID) *instance {
	for _, i := range c.instances {
		if i.id == id {
			return i
		}
	}
	return nil
}

// of lists the instances of the pool by their tags that are not terminated, in the order of their
// launch.
func (c *cloud) of(pool string) []*instance {
	var out []*instance
	for _, i := range c.instances {
		if ours(i.tags()) && i.pool() == pool && !i.gone() {
			out = append(out, i)
		}
	}
	return out
}

// alter has the instance be otherwise from now on.
func (c *cloud) alter(i *instance, change func(*moment)) {
	m := i.moments[len(i.moments)-1]
	m.at = c.w.now
	change(&m)
	i.moments = append(i.moments, m)
}

// become changes the state, retag the tags.
func (c *cloud) become(i *instance, state provider.InstanceState) {
	c.w.note("%s is %s", i.id, state)
	c.alter(i, func(m *moment) { m.state = state })
	if i.boot > 1 || i.up { // a launch that no read shows yet stays so while it boots
		i.unseenUntil = time.Time{}
	}
	c.w.machineChanged(i)
}

func (c *cloud) retag(i *instance, change func(map[string]string)) {
	tags := maps.Clone(i.tags())
	change(tags)
	c.alter(i, func(m *moment) { m.tags = tags })
}

// remembered is how long the cloud lists a terminated instance.
const remembered = 10 * time.Minute

// seen is the instance as a read shows it now, nil where it does not.
func (c *cloud) seen(i *instance) *provider.Instance {
	at := c.w.now.Add(-c.w.between(0, c.w.trouble.lag))
	if c.w.now.Before(i.unseenUntil) {
		return nil
	}
	var m *moment
	for k := range i.moments {
		if !i.moments[k].at.After(at) {
			m = &i.moments[k]
		}
	}
	if m == nil || m.state == provider.InstanceTerminated && at.Sub(m.at) > remembered {
		return nil
	}
	return i.as(m)
}

func (i *instance) as(m *moment) *provider.Instance {
	return &provider.Instance{
		ID: i.id, State: m.state, ProviderID: i.providerID(), Type: m.kind, Zone: i.zone, Region: regionOr(i.region),
		LaunchTime: i.launched,
		Tags:       maps.Clone(m.tags), StateReason: i.reason, Reservation: m.uses,
	}
}

// cloudClient is a process's way to the cloud. It implements provider.CloudProvider and
// nodeclass.AWSCloud.
type cloudClient struct{ p *process }

func (c *cloudClient) instance(id string) (*instance, error) {
	i := c.p.w.cloud.find(v1alpha1.InstanceID(id))
	if i != nil && c.p.inRegion(i.region) != nil {
		return nil, c.p.inRegion(i.region)
	}
	if i == nil || i.gone() && c.p.w.now.Sub(i.moments[len(i.moments)-1].at) > remembered {
		return nil, &provider.InstanceNotFoundError{ID: id}
	}
	return i, nil
}

// ResolveNodeClass implements nodeclass.AWSCloud. Nothing runs the loop that asks for it.
func (c *cloudClient) ResolveNodeClass(context.Context, *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error) {
	return v1alpha1.AWSNodeClassStatus{}, nil
}

// LaunchInstance implements nodeclass.AWSCloud.
func (c *cloudClient) LaunchInstance(_ context.Context, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	w := c.p.w
	var out *provider.Instance
	err := c.p.cloudWrite("launch "+req.Tags[v1alpha1.LabelPool], func() error {
		if err := c.p.inRegion(class.Spec.Region); err != nil {
			return err
		}
		for _, i := range w.cloud.instances {
			if i.token == req.ClientToken {
				out = i.as(&i.moments[len(i.moments)-1])
				return nil
			}
		}
		if err := w.launchRefused(); err != nil {
			return err
		}
		o, err := w.launchOffer(class)
		if err != nil {
			return err
		}
		i := w.cloud.add(req.ClientToken, req.Tags)
		i.moments[0].kind, i.moments[0].uses = o.kind, o.uses
		i.zone, i.runsIn = o.zone, o.runsIn
		i.region = regionOr(class.Spec.Region)
		if pool := w.api.pool(i.pool()); pool != nil {
			i.selfStop = pool.Spec.PreWarm.CompletionModeOf(class) == v1alpha1.SelfStop
		}
		w.note("%s launched for pool %s", i.id, i.pool())
		w.cloud.launchUnseen(i)
		w.rules.launched(i)
		w.launch(i)
		out = i.as(&i.moments[0])
		c.p.seen[i.id] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// StartInstance implements provider.CloudProvider.
func (c *cloudClient) StartInstance(_ context.Context, id string) error {
	return c.p.cloudWrite("start "+id, func() error {
		i, err := c.instance(id)
		if err != nil {
			return err
		}
		w := c.p.w
		w.rules.destructive("start", i)
		switch i.state() {
		case provider.InstanceStopped:
		case provider.InstancePending, provider.InstanceRunning:
			return nil
		default:
			return &provider.IncorrectStateError{ID: id, State: i.state(), Op: "start"}
		}
		w.rules.startsAsType(c.p, i)
		runsIn, err := w.startIn(c.p, i)
		if err != nil {
			i.refused = w.now
			w.rules.answeredStart(c.p, i, err)
			return err
		}
		i.started, i.runsIn = w.now, runsIn
		w.rules.startsWithOnly(i)
		w.rules.answeredStart(c.p, i, nil)
		w.rules.started(i)
		w.powerOn(i)
		return nil
	})
}

// StopInstance implements provider.CloudProvider.
func (c *cloudClient) StopInstance(_ context.Context, id string, force bool) error {
	return c.p.cloudWrite(map[bool]string{false: "stop ", true: "force-stop "}[force]+id, func() error {
		i, err := c.instance(id)
		switch {
		case err != nil:
			return err
		case i.ending():
			return &provider.IncorrectStateError{ID: id, State: i.state(), Op: "stop"}
		}
		c.p.w.rules.destructive("stop", i)
		c.p.w.powerOff(i, force)
		return nil
	})
}

// TerminateInstance implements provider.CloudProvider.
func (c *cloudClient) TerminateInstance(_ context.Context, id string) error {
	if i := c.p.w.cloud.find(v1alpha1.InstanceID(id)); i != nil && i.condemned.IsZero() {
		i.condemned = c.p.w.now
	}
	return c.p.cloudWrite("terminate "+id, func() error {
		i, err := c.instance(id)
		if err != nil || i.ending() {
			return err
		}
		c.p.w.rules.destructive("terminate", i)
		c.p.w.cloud.end(i)
		return nil
	})
}

// GetInstanceState implements provider.CloudProvider.
func (c *cloudClient) GetInstanceState(ctx context.Context, id string) (provider.InstanceState, error) {
	i, err := c.GetInstance(ctx, id)
	if err != nil {
		return "", err
	}
	return i.State, nil
}

// GetInstance implements provider.CloudProvider.
func (c *cloudClient) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	var out *provider.Instance
	err := c.p.cloudRead(func() error {
		if i := c.p.w.cloud.find(v1alpha1.InstanceID(id)); i != nil {
			if err := c.p.inRegion(i.region); err != nil {
				return err
			}
			out = c.p.w.cloud.seen(i)
		}
		if out == nil {
			if c.p.w.trouble.anyRegionDown(c.p.w.now) {
				return errUnreachable // it may be there
			}
			return &provider.InstanceNotFoundError{ID: id}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ListInstances implements provider.CloudProvider.
func (c *cloudClient) ListInstances(_ context.Context, tags map[string]string) ([]*provider.Instance, error) {
	var out []*provider.Instance
	err := c.p.cloudRead(func() error {
		for _, i := range c.p.w.cloud.instances {
			if c.p.inRegion(i.region) != nil {
				continue
			}
			seen := c.p.w.cloud.seen(i)
			if seen != nil && carries(seen.Tags, tags) {
				out = append(out, seen)
				c.p.seen[i.id] = true
			}
		}
		return c.p.lacking()
	})
	if _, partial := provider.AsPartialList(err); err != nil && !partial {
		return nil, err
	}
	return out, err
}

func carries(have, want map[string]string) bool {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have[k] != want[k] {
			return false
		}
	}
	return true
}

// UpdateInstanceTags implements provider.CloudProvider.
func (c *cloudClient) UpdateInstanceTags(_ context.Context, id string, tags map[string]string) error {
	return c.p.cloudWrite("tag "+id, func() error {
		i, err := c.instance(id)
		if err != nil {
			return err
		}
		c.p.w.rules.tagging(i, tags)
		c.p.w.cloud.retag(i, func(m map[string]string) { maps.Copy(m, tags) })
		return nil
	})
}
