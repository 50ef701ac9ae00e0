package simcloud

import (
	"cmp"
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

// DefaultRegion is where launches that name no region go.
const DefaultRegion = "us-east-1"

// Cloud is a cloud in memory. It is safe for concurrent use. Its clock is package time, so it runs
// in a synctest bubble.
type Cloud struct {
	types       map[string]InstanceType
	prefix      string
	clusterName string

	// mu guards the book.
	mu   sync.Mutex
	book *Book
}

// Book is everything that changes in a Cloud. A function given to Write has it
// alone and does not keep it.
type Book struct {
	prefix    string
	write     func(func(*Book))
	random    *rand.Rand
	times     Times
	capacity  []Capacity
	faults    []armed
	faultSeq  int
	instances map[v1alpha1.InstanceID]*Instance
	nextHost  uint32
	calls     []Call
	seq       int64
	changed   []v1alpha1.InstanceID
	observer  Observer
}

// Observer is told about machines' power.
type Observer interface {
	// PowerChanged is called after a change, without the Cloud's lock.
	PowerChanged(id v1alpha1.InstanceID)
	// Quiet returns when the machine, which is off, has no report in flight any more.
	Quiet(id v1alpha1.InstanceID)
}

// Options configure a Cloud. The zero value has the built-in types, default times, no limits and no
// faults.
type Options struct {
	// Types are added to the built-in table and win over it.
	Types []InstanceType
	// Times of the cloud; zero fields take the default.
	Times Times
	// Capacity limits; an offering without a limit has no end.
	Capacity []Capacity
	// ProviderPrefix begins every Node's spec.providerID, which goes on with /ZONE/ID: "aws://" for
	// EC2. Required.
	ProviderPrefix string
	// ClusterName is the name by which machines join the cluster; default ClusterName.
	ClusterName string
	// Seed makes ids, names and chance reproducible; 0 takes a random one.
	Seed uint64
}

// New returns a Cloud without instances.
func New(o Options) *Cloud {
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := &Cloud{types: builtinTypes(), prefix: o.ProviderPrefix,
		clusterName: cmp.Or(o.ClusterName, ClusterName)}
	for _, t := range o.Types {
		c.types[t.Name] = t
	}
	c.book = &Book{
		prefix:    o.ProviderPrefix,
		write:     c.Write,
		random:    rand.New(rand.NewPCG(seed, seed)),
		times:     o.Times.over(DefaultTimes()),
		capacity:  slices.Clone(o.Capacity),
		instances: map[v1alpha1.InstanceID]*Instance{},
	}
	// A new cloud over an old cluster must not hand out the names of Nodes that are still there.
	c.book.nextHost = c.book.random.Uint32N(1 << 23)
	return c
}

// Write runs f alone and tells the observer what changed afterwards, when the lock is free again.
func (c *Cloud) Write(f func(*Book)) {
	c.mu.Lock()
	f(c.book)
	changed, told := c.book.changed, c.book.observer
	c.book.changed = nil
	c.mu.Unlock()
	if told == nil {
		return
	}
	for _, id := range changed {
		told.PowerChanged(id)
	}
}

// InstanceType returns the type of that name.
func (c *Cloud) InstanceType(name string) (InstanceType, bool) {
	t, ok := c.types[name]
	return t, ok
}

// TypeNames are all types, sorted.
func (c *Cloud) TypeNames() []string { return slices.Sorted(maps.Keys(c.types)) }

// ProviderPrefix begins every Node's spec.providerID of this cloud.
func (c *Cloud) ProviderPrefix() string { return c.prefix }

// Latency waits as long as an armed FaultLatency says. The error is the context's.
func (c *Cloud) Latency(ctx context.Context, t Target) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", t.Op, err)
	}
	var delay time.Duration
	c.Write(func(b *Book) {
		if f := b.Strike(b.complete(t), FaultLatency); f != nil {
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
		return fmt.Errorf("%s: %w", t.Op, ctx.Err())
	}
}

// Answer runs the effect of a call unless an armed fault comes before it, and loses the answer of a
// successful one where one says so. A fault hides what the call would have said.
func (b *Book) Answer(t Target, effect func() error) error {
	if err := b.Down(t); err != nil {
		return err
	}
	if err := b.Refused(t); err != nil {
		return err
	}
	lost := b.LosesAnswer(t)
	err := effect()
	if err == nil {
		return lost
	}
	return err
}

// Down is the error of an outage; nil while there is none. An API that is down does not count its
// calls either.
func (b *Book) Down(t Target) error {
	t = b.complete(t)
	if f := b.Strike(t, FaultOutage); f != nil {
		return f.failure(t, b.stateOf(t.ID))
	}
	return nil
}

// Refused is the error of the fault, other than an outage, that keeps the call from its effect; nil
// for none.
func (b *Book) Refused(t Target) error {
	t = b.complete(t)
	kinds := []FaultKind{FaultRateLimit, FaultInvalidConfig, FaultNotFound, FaultIncorrectState, FaultUnauthorized}
	// A launch meets missing capacity per zone, where it picks its subnet.
	if t.Op != OpLaunch {
		kinds = append(kinds, FaultInsufficientCapacity)
	}
	if f := b.Strike(t, kinds...); f != nil {
		return f.failure(t, b.stateOf(t.ID))
	}
	return nil
}

// LosesAnswer is the error in place of a successful call's answer; nil where it arrives.
func (b *Book) LosesAnswer(t Target) error {
	t = b.complete(t)
	if f := b.Strike(t, FaultLostAnswer); f != nil {
		return &LostAnswerError{Err: f.failure(t, "")}
	}
	return nil
}

// LostAnswerError: the call took effect and its caller never hears so.
type LostAnswerError struct{ Err error }

func (e *LostAnswerError) Error() string { return e.Err.Error() }

// Unwrap returns what a caller is told who has to be told something.
func (e *LostAnswerError) Unwrap() error { return e.Err }

// complete adds what a call is about from the instance that it names.
func (b *Book) complete(t Target) Target {
	if inst := b.instances[t.ID]; inst != nil {
		t.Zone, t.Type = inst.Zone, inst.Type
	}
	return t
}

func (b *Book) stateOf(id v1alpha1.InstanceID) provider.InstanceState {
	if inst := b.instances[id]; inst != nil {
		return inst.State
	}
	return provider.InstanceUnknown
}

// Find returns the instance as writes see it: without lag. Errors: NotFound.
func (b *Book) Find(id v1alpha1.InstanceID) (*Instance, error) {
	inst := b.instances[id]
	if inst == nil || inst.gone {
		return nil, &provider.InstanceNotFoundError{ID: string(id)}
	}
	return inst, nil
}

// IDs are the instances that there are, sorted, those included that only lagging reads still see.
func (b *Book) IDs() []v1alpha1.InstanceID {
	return slices.Sorted(maps.Keys(b.instances))
}

// Times returns the times in force.
func (b *Book) Times() Times { return b.times }

// HasRoom reports whether that many more instances of the type may have power in the zone.
func (b *Book) HasRoom(zone, kind string, more int) bool {
	used := -1
	for _, limit := range b.capacity {
		if (limit.Zone != "*" && limit.Zone != zone) || (limit.Type != "*" && limit.Type != kind) {
			continue
		}
		if used < 0 {
			used = b.powered(zone, kind)
		}
		if used+more > limit.Count {
			return false
		}
	}
	return true
}

func (b *Book) powered(zone, kind string) int {
	n := 0
	for _, inst := range b.instances {
		if inst.Zone == zone && inst.Type == kind && !inst.Reserved && inst.Powered() {
			n++
		}
	}
	return n
}

// NoCapacity is the error of a zone without room for the type.
func NoCapacity(zone, kind string) error {
	return &provider.InsufficientCapacityError{Type: kind, Zone: zone, Err: errors.New("InsufficientInstanceCapacity")}
}

// InSubnet counts the instances that hold an address of the subnet: stopped ones keep theirs.
func (b *Book) InSubnet(subnet string) int {
	n := 0
	for _, inst := range b.instances {
		if inst.Subnet == subnet && !inst.gone && inst.State != provider.InstanceTerminated {
			n++
		}
	}
	return n
}
