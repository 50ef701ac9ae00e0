package plan

import (
	"testing"
	"time"
)

// TestASlotKeepsItsZoneUntilItSettles, and no other slot gets it.
func TestASlotKeepsItsZoneUntilItSettles(t *testing.T) {
	s := Slots{Next: 4, Pending: []int64{2}}.Reserve(3).InZones([]string{"a", "b"})
	if want := `{"next":7,"pending":[2,4,5,6],"zones":{"5":"a","6":"b"}}`; s.String() != want {
		t.Errorf("%s, want %s", s, want)
	}
	if got, want := s.Settle(map[int64]bool{4: true, 6: true}).String(),
		`{"next":7,"pending":[2,5],"zones":{"5":"a"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s.Zones[6] != "b" {
		t.Error("the slots from before have changed")
	}
}

func TestLaunchesInZonesAndBesideNodesThatAreKeptBack(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		want int32
	}{
		"a zone without supply, standby elsewhere": {Pool{PoolSize: 5, Standby: 1, Total: 1, Zoned: 1}, 1},
		"a zone with supply":                       {Pool{PoolSize: 5, Warmup: 1, Total: 1, Served: 1}, 0},
		"what serves a zone is no standby": {Pool{PoolSize: 5, MinStandby: 1, Warmup: 1, Total: 1, Served: 1},
			1},
		"zones in addition to the rest": {Pool{PoolSize: 5, MinStandby: 1, Demand: 1, Zoned: 1}, 3},
		"within poolSize":               {Pool{PoolSize: 2, Standby: 1, Total: 1, Zoned: 3}, 1},
		"kept back a moment ago": {Pool{PoolSize: 5, MinStandby: 1, Standby: 1, Total: 1,
			Unstartable: 1}, 0},
		"kept back for long": {Pool{PoolSize: 5, MinStandby: 1, Standby: 1, Total: 1,
			Unstartable: 1, Withheld: 1}, 1},
		"kept back, and a pod waits": {Pool{PoolSize: 5, Standby: 1, Total: 1, Unstartable: 1, Demand: 1},
			1},
		"kept back for long, and a pod waits": {Pool{PoolSize: 5, MinStandby: 1, Standby: 1, Total: 1,
			Unstartable: 1, Withheld: 1, Demand: 1}, 2},
		"kept back for long, and another is on its way": {Pool{PoolSize: 5, MinStandby: 1, Standby: 1, Total: 2, Pending: 1,
			Unstartable: 1, Withheld: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Launches(c.pool); got != c.want {
				t.Errorf("%d launches, want %d", got, c.want)
			}
		})
	}
}

// TestAPoolThatKeepsItsSurplusKeepsDriftedNodes: nothing would be launched in their place.
func TestAPoolThatKeepsItsSurplusKeepsDriftedNodes(t *testing.T) {
	forever := func(least int32) DisruptionPolicy {
		return DisruptionPolicy{PoolSize: 10, MinStandby: least, Budget: 1, Drift: true}
	}
	hourlyOf := func(least int32) DisruptionPolicy { p := forever(least); p.SurplusTTL = time.Hour; return p }
	expiring := func(p DisruptionPolicy) DisruptionPolicy { p.ExpireAfter = 2 * time.Hour; return p }
	withheld := func(m *Candidate) { m.Withheld = true }
	for name, c := range map[string]struct {
		members []Candidate
		policy  DisruptionPolicy
		want    string
	}{
		"minStandby 0":          {[]Candidate{standby("a", drifted), standby("b", drifted)}, forever(0), ""},
		"more than minStandby":  {[]Candidate{standby("a", drifted), standby("b", drifted)}, forever(1), ""},
		"as many as minStandby": {[]Candidate{standby("a", drifted), standby("b", drifted)}, forever(2), "a drift"},
		"drifted and expired": {[]Candidate{standby("a", drifted, launched(3*time.Hour))}, expiring(forever(0)),
			"a drift"},
		"one that runs and is empty": {[]Candidate{running("a", drifted, empty), standby("b", drifted)}, forever(0),
			"a drift"},
		"a pool whose surplus goes":       {[]Candidate{standby("a", drifted), standby("b", drifted)}, hourlyOf(0), "a drift"},
		"a node that a person keeps back": {[]Candidate{standby("a", withheld), standby("b", drifted)}, forever(1), "b drift"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(Recycle(c.members, c.policy, epoch())); got != c.want {
				t.Errorf("turns %q, want %q", got, c.want)
			}
		})
	}
}

// TestAKeptBackNodeIsNoSurplus: else the nodes that stand in for it would be terminated and
// launched again.
func TestAKeptBackNodeIsNoSurplus(t *testing.T) {
	members := []Candidate{standby("a", func(m *Candidate) { m.Withheld = true }), standby("b")}
	if got := Surplus(members, hourly(1)); len(got) > 0 {
		t.Errorf("surplus %v", got)
	}
}
