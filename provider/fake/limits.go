package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// PublishedLimits returns EC2's request buckets as AWS documents them (docs: "Request throttling
// for the Amazon EC2 API").
func PublishedLimits() map[Op]Limit {
	return map[Op]Limit{
		OpLaunch:     {Burst: 5, PerSecond: 2},
		OpStart:      {Burst: 5, PerSecond: 2},
		OpStop:       {Burst: 50, PerSecond: 5},
		OpTerminate:  {Burst: 100, PerSecond: 5},
		OpGetState:   {Burst: 100, PerSecond: 20},
		OpGet:        {Burst: 100, PerSecond: 20},
		OpList:       {Burst: 100, PerSecond: 20},
		OpUpdateTags: {Burst: 100, PerSecond: 10},
		OpChangeType: {Burst: 50, PerSecond: 5},
	}
}

// SetLimits implements Control.
func (c *Cloud) SetLimits(_ context.Context, limits map[Op]Limit) error {
	for op, l := range limits {
		if l.Burst < 1 || l.PerSecond < 0 {
			return &provider.InvalidConfigError{Field: "limits",
				Reason: fmt.Sprintf("%s: burst must be at least 1, refill not negative", op)}
		}
	}
	c.Write(func(*simcloud.Book) { c.setLimits(limits) })
	return nil
}

func (c *Cloud) setLimits(limits map[Op]Limit) {
	now := time.Now()
	c.buckets = map[Op]*simcloud.Bucket{}
	for op, l := range limits {
		c.buckets[op] = simcloud.NewBucket(l, now)
	}
}
