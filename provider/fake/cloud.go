package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// defaultRegion is where classes without a region launch.
const defaultRegion = "us-east-1"

// Cloud is a cloud in memory. It is safe for concurrent use. Its clock is package time, so it runs in a synctest bubble.
type Cloud struct {
	region    string
	zones     int
	types     map[string]InstanceType
	addresses map[string]int

	// mu guards everything below, the instances included.
	mu        sync.Mutex
	random    *rand.Rand
	times     Times
	capacity  []Capacity
	buckets   map[Op]*bucket
	faults    []armed
	faultSeq  int
	instances map[v1alpha1.InstanceID]*instance
	tokens    map[string]launched
	subnets   map[string]string
	subnetSeq map[string]int
	launchSeq int
	nextHost  uint32
	calls     []Call
	seq       int64
	changed   []v1alpha1.InstanceID
	observer  observer
}

// observer is told about machines' power. Machines implements it.
type observer interface {
	// powerChanged is called after a change, without the Cloud's lock.
	powerChanged(id v1alpha1.InstanceID)
	// quiet returns when the machine, which is off, has no report in flight any more.
	quiet(id v1alpha1.InstanceID)
}

// New returns a Cloud without instances.
func New(o Options) *Cloud {
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := &Cloud{
		region:    o.Region,
		zones:     o.Zones,
		types:     builtinTypes(),
		addresses: maps.Clone(o.SubnetAddresses),
		random:    rand.New(rand.NewPCG(seed, seed)),
		times:     o.Times.over(DefaultTimes()),
		capacity:  slices.Clone(o.Capacity),
		instances: map[v1alpha1.InstanceID]*instance{},
		tokens:    map[string]launched{},
		subnets:   map[string]string{},
		subnetSeq: map[string]int{},
	}
	if c.region == "" {
		c.region = defaultRegion
	}
	if c.zones <= 0 {
		c.zones = 3
	}
	for _, t := range o.Types {
		c.types[t.Name] = t
	}
	// A new cloud over an old cluster must not hand out the names of Nodes that are still there.
	c.nextHost = c.random.Uint32N(1 << 23)
	c.setLimits(o.Limits)
	return c
}

// InstanceType returns the type of that name.
func (c *Cloud) InstanceType(name string) (InstanceType, bool) {
	t, ok := c.types[name]
	return t, ok
}

// zoneNames returns the zones of the region: us-east-1a, us-east-1b, ...
func (c *Cloud) zoneNames(region string) []string {
	names := make([]string, c.zones)
	for i := range names {
		names[i] = fmt.Sprintf("%s%c", region, 'a'+rune(i%26))
	}
	return names
}

// locked runs f under the lock and tells the observer what changed afterwards, when the lock is free again.
func (c *Cloud) locked(f func()) {
	c.mu.Lock()
	f()
	changed, told := c.changed, c.observer
	c.changed = nil
	c.mu.Unlock()
	if told == nil {
		return
	}
	for _, id := range changed {
		told.powerChanged(id)
	}
}

// call is the way of every API call: context, latency, rate limit, faults, effect, log. The error order is the one of
// EC2: a throttled call is never looked at, and a fault hides what the call would have said.
func (c *Cloud) call(ctx context.Context, logged Call, effect func() error) error {
	logged.At = time.Now()
	if err := c.latency(ctx, logged); err != nil {
		c.locked(func() { c.record(logged, err) })
		return err
	}
	var err error
	c.locked(func() {
		err = c.answer(&logged, "", effect)
		c.record(logged, err)
	})
	return err
}

// latency waits as long as an armed FaultLatency says.
func (c *Cloud) latency(ctx context.Context, logged Call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", logged.Op, err)
	}
	var delay time.Duration
	c.locked(func() {
		if f := c.strike(c.aim(logged), FaultLatency); f != nil {
			delay = f.Delay
		}
	})
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", logged.Op, ctx.Err())
	}
}

// answer takes the instance type where the call names no instance that has one: a launch.
func (c *Cloud) answer(logged *Call, kind string, effect func() error) error {
	if b := c.buckets[logged.Op]; b != nil && !b.take(time.Now()) {
		return &provider.RateLimitError{Operation: string(logged.Op), Err: errors.New("RequestLimitExceeded")}
	}
	t := c.aim(*logged)
	if t.kind == "" {
		t.kind = kind
	}
	kinds := []FaultKind{FaultOutage, FaultRateLimit, FaultInvalidConfig, FaultNotFound, FaultIncorrectState}
	// A launch meets missing capacity per zone, where it picks its subnet.
	if logged.Op != OpLaunch {
		kinds = append(kinds, FaultInsufficientCapacity)
	}
	if f := c.strike(t, kinds...); f != nil {
		return f.failure(t, c.stateOf(t.id))
	}
	lost := c.strike(t, FaultLostAnswer)
	err := effect()
	if lost != nil && err == nil {
		return lost.failure(t, "")
	}
	return err
}

// aim completes what a call is about from the instance that it names.
func (c *Cloud) aim(logged Call) target {
	t := target{op: logged.Op, id: logged.Instance}
	if inst := c.instances[logged.Instance]; inst != nil {
		t.zone, t.kind = inst.Zone, inst.Type
	}
	return t
}

func (c *Cloud) stateOf(id v1alpha1.InstanceID) provider.InstanceState {
	if inst := c.instances[id]; inst != nil {
		return inst.State
	}
	return provider.InstanceUnknown
}

// find returns the instance as writes see it: without lag.
func (c *Cloud) find(id v1alpha1.InstanceID) (*instance, error) {
	inst := c.instances[id]
	if inst == nil || inst.gone {
		return nil, &provider.InstanceNotFoundError{ID: string(id)}
	}
	return inst, nil
}

func (c *Cloud) sortedIDs() []v1alpha1.InstanceID {
	return slices.Sorted(maps.Keys(c.instances))
}
