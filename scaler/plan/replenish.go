// Package plan decides about a pool as a whole. It is pure: no client, logger or clock.
package plan

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Pool is what replenishment depends on.
type Pool struct {
	PoolSize, MinStandby int32
	// Demand are the nodes that waiting pods need and that no standby node can be.
	Demand int32
	// Standby and Warmup are the nodes that are ready to start or will be; Total counts every instance in every state.
	Standby, Warmup, Total int32
	// Pending are launches that were asked for and that no sweep has shown yet.
	Pending int32
	// Held: launches back off after a failed warm-up. Probe: they did, and go on with one instance at a time until one
	// completes its warm-up.
	Held, Probe bool
}

// Launches is how many instances to launch now: as many as standby lacks of minStandby and of what pods wait for,
// warming ones and pending launches counted as standby to be, and never past poolSize.
func Launches(p Pool) int32 {
	return max(0, wanted(p)-p.Pending)
}

// Unneeded is how many of the pending launches are not wanted any more.
func Unneeded(p Pool) int32 {
	return max(0, p.Pending-wanted(p))
}

// wanted is how many launches may be pending.
func wanted(p Pool) int32 {
	n := max(0, min(p.MinStandby+p.Demand-p.Standby-p.Warmup, p.PoolSize-p.Total))
	switch {
	case p.Held:
		return 0
	case p.Probe:
		return min(n, max(0, 1-p.Warmup))
	}
	return n
}

// Slots are a pool's launch numbers, recorded on the NodePool before the cloud is called. A slot makes the client token
// of its launch, so a launch that a crash left open is asked for again under the same token and yields the same
// instance. Numbers are never used twice: the cloud would answer a used token with an instance that may be long gone.
type Slots struct {
	Next    int64   `json:"next"`
	Pending []int64 `json:"pending,omitempty"`
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
