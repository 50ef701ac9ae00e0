package simcloud

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratos-sh/stratos/provider"
)

// AddFault implements fake.Control.
func (c *Cloud) AddFault(_ context.Context, f Fault) (string, error) {
	if !f.Kind.known() {
		return "", &provider.InvalidConfigError{Field: "kind", Reason: fmt.Sprintf("unknown fault kind %q", f.Kind)}
	}
	if f.Count < 0 || f.Skip < 0 || f.Delay < 0 || f.Probability < 0 || f.Probability > 1 {
		return "", &provider.InvalidConfigError{Field: "fault",
			Reason: "numbers must not be negative, and probability at most 1"}
	}
	c.Write(func(b *Book) {
		b.faultSeq++
		f.ID = fmt.Sprintf("fault-%d", b.faultSeq)
		b.faults = append(b.faults, armed{Fault: f, left: f.Count, skip: f.Skip})
	})
	return f.ID, nil
}

// Faults implements fake.Control.
func (c *Cloud) Faults(context.Context) ([]Fault, error) {
	var faults []Fault
	c.Write(func(b *Book) {
		for _, f := range b.faults {
			if f.Count == 0 || f.left > 0 {
				faults = append(faults, f.Fault)
			}
		}
	})
	return faults, nil
}

// ClearFaults implements fake.Control.
func (c *Cloud) ClearFaults(context.Context) error {
	c.Write(func(b *Book) {
		b.faults = nil
		for _, id := range b.IDs() {
			if inst := b.instances[id]; inst.hung && inst.State == provider.InstanceStopping {
				inst.hung = false
				b.stopAfter(inst, b.times.Stop)
			}
		}
	})
	return nil
}

// SetTimes implements fake.Control.
func (c *Cloud) SetTimes(_ context.Context, t Times) error {
	c.Write(func(b *Book) { b.times = t.over(b.times) })
	return nil
}

// Times returns the times in force.
func (c *Cloud) Times() Times {
	var t Times
	c.Write(func(b *Book) { t = b.times })
	return t
}

// SetCapacity implements fake.Control.
func (c *Cloud) SetCapacity(_ context.Context, limits []Capacity) error {
	c.Write(func(b *Book) { b.capacity = slices.Clone(limits) })
	return nil
}

// Calls implements fake.Control.
func (c *Cloud) Calls(context.Context) ([]Call, error) {
	var calls []Call
	c.Write(func(b *Book) { calls = slices.Clone(b.calls) })
	return calls, nil
}

// Snapshot implements fake.Control.
func (c *Cloud) Snapshot(context.Context) ([]View, error) {
	var views []View
	c.Write(func(b *Book) {
		for _, id := range b.IDs() {
			if inst := b.instances[id]; !inst.gone {
				views = append(views, inst.view())
			}
		}
	})
	return views, nil
}
