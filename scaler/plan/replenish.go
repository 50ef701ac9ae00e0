// Package plan decides about a pool as a whole. It is pure: no client, logger or clock.
package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Pool is what replenishment depends on.
type Pool struct {
	PoolSize, MinStandby int32
	// Demand are the nodes that pending pods need in any zone, New those of them that no standby node
	// can be, because it does not fit their pods.
	Demand, New int32
	// Zoned are the launches that pending pods need in zones where nothing comes up for them. Served
	// is how much of what comes up or is standby serves such pods alone, ServedComing what comes up of
	// that.
	Zoned, Served, ServedComing int32
	// Standby and Warmup are the nodes that are ready to start or will be; Total counts every instance
	// in every state.
	Standby, Warmup, Total int32
	// Unstartable are the standby nodes that a person keeps from starting: they serve no pod. Withheld
	// are those of them that have not been startable for so long that they do not count towards
	// minStandby either.
	Unstartable, Withheld int32
	// Pending are launches that were asked for and that no sweep has shown yet.
	Pending int32
	// Held: launches back off after a failed warm-up. Probe: they did, and go on with one instance at
	// a time until one completes its warm-up.
	Held, Probe bool
}

// Launches is how many instances to launch now: as many as standby lacks of minStandby and of what
// pods wait for, warming ones and pending launches counted as standby to be, and never past
// poolSize.
func Launches(p Pool) int32 {
	if p.Held {
		return 0
	}
	n := max(0, min(max(0, lack(p)-p.Pending)+p.Zoned, p.PoolSize-p.Total-p.Pending))
	if p.Probe {
		n = min(n, max(0, 1-p.Warmup-p.Pending))
	}
	return n
}

// Unneeded is how many of the pending launches are not wanted any more.
func Unneeded(p Pool) int32 {
	if p.Held {
		return p.Pending
	}
	wanted := max(0, min(lack(p), p.PoolSize-p.Total))
	if p.Probe {
		wanted = min(wanted, max(0, 1-p.Warmup))
	}
	return max(0, p.Pending-wanted)
}

// lack is how many launches the pool lacks in any zone, pending ones left out.
func lack(p Pool) int32 {
	served := max(0, min(p.New, p.Warmup-p.ServedComing))
	demand, supply := p.Demand-p.New, p.Standby+p.Warmup-p.Served-served
	rest := max(p.MinStandby+demand-(supply-p.Withheld), demand-(supply-p.Unstartable))
	return p.New - served + max(0, rest)
}

// Slots are a pool's launch numbers, recorded on the NodePool before the cloud is called. A slot
// makes the client token of its launch, so a launch that a crash left open is asked for again under
// the same token and yields the same instance. Numbers are never used twice: the cloud would answer
// a used token with an instance that may be long gone.
type Slots struct {
	Next    int64   `json:"next"`
	Pending []int64 `json:"pending,omitempty"`
	// Zones are the zones of the pending launches that go to a certain one: asked for again, a launch
	// goes where it went.
	Zones map[int64]string `json:"zones,omitempty"`
}

// ParseSlots reads the value of the launches annotation; "" is a pool that has launched nothing.
func ParseSlots(text string) (Slots, error) {
	s := Slots{}
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("launch slots %q: %w", text, err)
	}
	return s, nil
}

// String is the value of the launches annotation.
func (s Slots) String() string {
	out, err := json.Marshal(s)
	if err != nil {
		return "" // numbers always encode
	}
	return string(out)
}

// Settle drops the pending slots whose instance has been seen.
func (s Slots) Settle(seen map[int64]bool) Slots {
	s.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(slot int64) bool { return seen[slot] })
	s.Zones = maps.Clone(s.Zones)
	maps.DeleteFunc(s.Zones, func(slot int64, _ string) bool { return !slices.Contains(s.Pending, slot) })
	return s
}

// InZones has the last of the pending slots launch in the zones, one each, as far as there are
// slots.
func (s Slots) InZones(zones []string) Slots {
	if len(zones) == 0 {
		return s
	}
	s.Zones = maps.Clone(s.Zones)
	if s.Zones == nil {
		s.Zones = map[int64]string{}
	}
	for i, zone := range zones {
		s.Zones[s.Pending[len(s.Pending)-len(zones)+i]] = zone
	}
	return s
}

// Reserve adds n slots to the pending ones.
func (s Slots) Reserve(n int32) Slots {
	s.Pending = slices.Clone(s.Pending)
	for range n {
		s.Pending = append(s.Pending, s.Next)
		s.Next++
	}
	return s
}
