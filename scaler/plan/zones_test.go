package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
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
		"standby, but too small for the pods": {Pool{PoolSize: 5, Standby: 1, Total: 1, Demand: 1, New: 1}, 1},
		"too small, and one comes up": {Pool{PoolSize: 5, Standby: 1, Warmup: 1, Total: 2, Demand: 1, New: 1},
			0},
		"too small, and one comes up for another zone": {Pool{PoolSize: 5, Standby: 1, Warmup: 1, Total: 2, Demand: 1, New: 1,
			Served: 1, ServedComing: 1}, 1},
		"too small for one of two": {Pool{PoolSize: 5, Standby: 1, Total: 1, Demand: 2, New: 1}, 1},
		"too small, and one is asked for": {Pool{PoolSize: 5, Standby: 1, Total: 1, Demand: 1, New: 1, Pending: 1},
			0},
		"too small, and as many as minStandby": {Pool{PoolSize: 5, MinStandby: 1, Standby: 1, Total: 1, Demand: 1, New: 1}, 1},
		"too small, and more than minStandby":  {Pool{PoolSize: 9, MinStandby: 1, Standby: 4, Total: 4, Demand: 2, New: 2}, 2},
		"too small, and standby lacks one":     {Pool{PoolSize: 5, MinStandby: 2, Standby: 1, Total: 1, Demand: 1, New: 1}, 2},
		"too small, and one comes up for standby": {Pool{PoolSize: 5, MinStandby: 2, Standby: 1, Warmup: 1, Total: 2,
			Demand: 1, New: 1}, 1},
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

// TestPodsThatFitNoStandbyNode need what comes up, or a launch; the others take the room that is
// left there, and then standby nodes.
func TestPodsThatFitNoStandbyNode(t *testing.T) {
	one := func(unfit bool, cpu string, zones ...string) Waiting {
		return Waiting{Pod: cpuPods(1, cpu)[0], Zones: zones, Unfit: unfit}
	}
	standby, coming := map[string]int32{"x": 1}, map[string]int32{"x": 1}
	for name, c := range map[string]struct {
		pods   []Waiting
		supply Supply
		want   Need
	}{
		"in any zone":                 {[]Waiting{one(true, "4")}, Supply{Standby: standby}, Need{Any: 1, New: 1}},
		"beside one that fits":        {[]Waiting{one(false, "4"), one(true, "4")}, Supply{Standby: standby}, Need{Any: 2, New: 1}},
		"with room for one that fits": {[]Waiting{one(false, "1"), one(true, "3")}, Supply{}, Need{Any: 1, New: 1}},
		"in the standby node's zone":  {[]Waiting{one(true, "4", "x")}, Supply{Standby: standby}, Need{Zones: []string{"x"}}},
		"where one comes up": {[]Waiting{one(true, "4", "x")}, Supply{Standby: standby, Coming: coming},
			Need{Served: 1, ServedComing: 1}},
		"beside one that fits, in the zone": {[]Waiting{one(false, "4", "x"), one(true, "4", "x")},
			Supply{Standby: standby, Coming: coming}, Need{Served: 2, ServedComing: 1}},
		"one that fits takes the standby node": {[]Waiting{one(false, "4", "x")},
			Supply{Standby: standby, Coming: coming}, Need{Served: 1}},
		"the zone where one comes up": {[]Waiting{one(true, "4", "w", "x")}, Supply{Standby: map[string]int32{"w": 1},
			Coming: coming}, Need{Served: 1, ServedComing: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			pattern := &decide.Node{Node: fit.Node{Name: "n", Allocatable: fit.Resources{MilliCPU: 4000, Pods: 10}}}
			same := func(labels map[string]string, _ string) map[string]string { return labels }
			if diff := cmp.Diff(c.want, NeedOf(c.pods, pattern, c.supply, same)); diff != "" {
				t.Errorf("need (-want +got):\n%s", diff)
			}
		})
	}
	need := NeedOf([]Waiting{one(true, "4", "x")}, nil, Supply{Standby: standby}, nil)
	if diff := cmp.Diff(Need{Zones: []string{"x"}}, need); diff != "" {
		t.Errorf("without a pattern (-want +got):\n%s", diff)
	}
}
