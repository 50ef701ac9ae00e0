package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/provider"
)

// AddFault implements Control.
func (c *Cloud) AddFault(_ context.Context, f Fault) (string, error) {
	if !f.Kind.known() {
		return "", &provider.InvalidConfigError{Field: "kind", Reason: fmt.Sprintf("unknown fault kind %q", f.Kind)}
	}
	if f.Count < 0 || f.Skip < 0 || f.Delay < 0 || f.Probability < 0 || f.Probability > 1 {
		return "", &provider.InvalidConfigError{Field: "fault", Reason: "numbers must not be negative, and probability at most 1"}
	}
	c.locked(func() {
		c.faultSeq++
		f.ID = fmt.Sprintf("fault-%d", c.faultSeq)
		c.faults = append(c.faults, armed{Fault: f, left: f.Count, skip: f.Skip})
	})
	return f.ID, nil
}

// Faults implements Control.
func (c *Cloud) Faults(context.Context) ([]Fault, error) {
	var faults []Fault
	c.locked(func() {
		for _, f := range c.faults {
			if f.Count == 0 || f.left > 0 {
				faults = append(faults, f.Fault)
			}
		}
	})
	return faults, nil
}

// ClearFaults implements Control.
func (c *Cloud) ClearFaults(context.Context) error {
	c.locked(func() {
		c.faults = nil
		for _, id := range c.sortedIDs() {
			if inst := c.instances[id]; inst.hung && inst.State == provider.InstanceStopping {
				inst.hung = false
				c.stopAfter(inst, c.times.Stop)
			}
		}
	})
	return nil
}

// SetTimes implements Control.
func (c *Cloud) SetTimes(_ context.Context, t Times) error {
	c.locked(func() { c.times = t.over(c.times) })
	return nil
}

// Times returns the times in force.
func (c *Cloud) Times() Times {
	var t Times
	c.locked(func() { t = c.times })
	return t
}

// SetCapacity implements Control.
func (c *Cloud) SetCapacity(_ context.Context, limits []Capacity) error {
	c.locked(func() { c.capacity = slices.Clone(limits) })
	return nil
}

// SetLimits implements Control.
func (c *Cloud) SetLimits(_ context.Context, limits map[Op]Limit) error {
	for op, l := range limits {
		if l.Burst < 1 || l.PerSecond < 0 {
			return &provider.InvalidConfigError{Field: "limits", Reason: fmt.Sprintf("%s: burst must be at least 1, refill not negative", op)}
		}
	}
	c.locked(func() { c.setLimits(limits) })
	return nil
}

func (c *Cloud) setLimits(limits map[Op]Limit) {
	now := time.Now()
	c.buckets = map[Op]*bucket{}
	for op, l := range limits {
		c.buckets[op] = newBucket(l, now)
	}
}

// Calls implements Control.
func (c *Cloud) Calls(context.Context) ([]Call, error) {
	var calls []Call
	c.locked(func() { calls = slices.Clone(c.calls) })
	return calls, nil
}
