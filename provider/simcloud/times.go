package simcloud

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Times say how long things take. A zero field means the default, a negative one means no time at
// all. In JSON each is a number of nanoseconds.
type Times struct {
	// Boot is the time from the accepted start or launch until the kubelet reports Ready. Default 3 s.
	// The instance is pending for the first third of it.
	Boot time.Duration
	// BootSpread is added to Boot at random, between nothing and all of it. Default none.
	BootSpread time.Duration
	// RegisterDelay is added at the first boot. Default none.
	RegisterDelay time.Duration
	// Stop is the time from the accepted stop until stopped. Default 1 s.
	Stop time.Duration
	// ShuttingDown is the time from the accepted termination until terminated; a guest that ran goes
	// on meanwhile. Default 1 s (EC2: up to minutes).
	ShuttingDown time.Duration
	// Pull is the time to pull one image; images are pulled in parallel. Default 500 ms.
	Pull time.Duration
	// DeviceDelay is the time from Ready until extended resources are reported. Default 500 ms.
	DeviceDelay time.Duration
	// NetworkDelay is the time from Ready until the CNI reports. Default none: in the same report.
	NetworkDelay time.Duration
	// SelfStopAfter is the time from the first Ready until user data with a power-off command ends.
	// Default 500 ms.
	SelfStopAfter time.Duration
	// PodStop is the time a deleted pod takes to end. Default 100 ms.
	PodStop time.Duration
	// Lag is how old a state reads show, up to 6 min. Default none.
	Lag time.Duration
	// Retention is how long terminated instances stay listed. Default 1 min (EC2: about an hour).
	Retention time.Duration
}

// DefaultTimes returns the times of a Cloud with zero Options.
func DefaultTimes() Times {
	return Times{
		Boot:          3 * time.Second,
		Stop:          time.Second,
		ShuttingDown:  time.Second,
		Pull:          500 * time.Millisecond,
		DeviceDelay:   500 * time.Millisecond,
		SelfStopAfter: 500 * time.Millisecond,
		PodStop:       100 * time.Millisecond,
		Retention:     time.Minute,
	}
}

// over returns base with the fields that t sets.
func (t Times) over(base Times) Times {
	pick := func(to *time.Duration, v time.Duration) {
		switch {
		case v < 0:
			*to = 0
		case v > 0:
			*to = v
		}
	}
	pick(&base.Boot, t.Boot)
	pick(&base.BootSpread, t.BootSpread)
	pick(&base.RegisterDelay, t.RegisterDelay)
	pick(&base.Stop, t.Stop)
	pick(&base.ShuttingDown, t.ShuttingDown)
	pick(&base.Pull, t.Pull)
	pick(&base.DeviceDelay, t.DeviceDelay)
	pick(&base.NetworkDelay, t.NetworkDelay)
	pick(&base.SelfStopAfter, t.SelfStopAfter)
	pick(&base.PodStop, t.PodStop)
	pick(&base.Lag, t.Lag)
	pick(&base.Retention, t.Retention)
	return base
}

// Capacity limits how many instances of a type may be pending, running or stopping in a zone. "*"
// is any, each counted on its own: {"*", "m5.large", 3} allows three per zone.
type Capacity struct {
	Zone, Type string
	Count      int
}

// ParseCapacity reads "zone/type=count;zone/type=count", where zone and type may be "*".
func ParseCapacity(text string) ([]Capacity, error) {
	var limits []Capacity
	for _, part := range Parts(text, ";") {
		offering, number, ok := strings.Cut(part, "=")
		zone, typ, both := strings.Cut(offering, "/")
		count, err := strconv.Atoi(number)
		if !ok || !both || zone == "" || typ == "" || err != nil || count < 0 {
			return nil, fmt.Errorf("capacity %q: want zone/type=count, for example us-east-1a/m5.large=3", part)
		}
		limits = append(limits, Capacity{Zone: zone, Type: typ, Count: count})
	}
	return limits, nil
}

// Parts splits text, trims the parts and drops empty ones.
func Parts(text, separator string) []string {
	var found []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			found = append(found, part)
		}
	}
	return found
}
