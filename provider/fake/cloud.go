package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// defaultRegion is where classes without a region launch.
const defaultRegion = simcloud.DefaultRegion

// providerPrefix begins every Node's spec.providerID of this cloud.
const providerPrefix = "fake://"

// Cloud is a cloud in memory. It is safe for concurrent use. Its clock is package time, so it runs
// in a synctest bubble.
type Cloud struct {
	*simcloud.Cloud

	region    string
	zones     int
	addresses map[string]int

	// What follows is touched inside Write alone, whose lock guards it.
	buckets   map[Op]*simcloud.Bucket
	tokens    map[string]launched
	subnets   map[string]string
	subnetSeq map[string]int
}

// New returns a Cloud without instances.
func New(o Options) *Cloud {
	return Over(simcloud.New(simcloud.Options{
		Types: o.Types, Times: o.Times, Capacity: o.Capacity, ProviderPrefix: providerPrefix, Seed: o.Seed,
	}), o)
}

// Over returns a Cloud that answers for instances which are there already, or come by another way:
// what is launched by EC2's protocol can be watched and troubled by Control. Of the options only
// those count that are not the played cloud's own.
func Over(sim *simcloud.Cloud, o Options) *Cloud {
	c := &Cloud{
		Cloud:     sim,
		region:    o.Region,
		zones:     o.Zones,
		addresses: maps.Clone(o.SubnetAddresses),
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
	c.setLimits(o.Limits)
	return c
}

// zoneNames returns the zones of the region: us-east-1a, us-east-1b, ...
func (c *Cloud) zoneNames(region string) []string {
	names := make([]string, c.zones)
	for i := range names {
		names[i] = fmt.Sprintf("%s%c", region, 'a'+rune(i%26))
	}
	return names
}

// call is the way of every API call: context, latency, rate limit, faults, effect, log. The error
// order is the one of EC2: a throttled call is never looked at, and a fault hides what the call
// would have said.
func (c *Cloud) call(ctx context.Context, logged Call, effect func(*simcloud.Book) error) error {
	logged.At = time.Now()
	err := c.Latency(ctx, targetOf(logged))
	c.Write(func(b *simcloud.Book) {
		if err == nil {
			err = c.answer(b, targetOf(logged), func() error { return effect(b) })
		}
		b.Record(logged, err)
	})
	return err
}

func (c *Cloud) answer(b *simcloud.Book, t simcloud.Target, effect func() error) error {
	if bucket := c.buckets[t.Op]; bucket != nil && !bucket.Take(time.Now(), 1) {
		return &provider.RateLimitError{Operation: string(t.Op), Err: errors.New("RequestLimitExceeded")}
	}
	return b.Answer(t, effect)
}

func targetOf(logged Call) simcloud.Target {
	return simcloud.Target{Op: logged.Op, ID: logged.Instance}
}
