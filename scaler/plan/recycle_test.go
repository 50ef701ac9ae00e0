package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return epoch().Add(-d) }

// in is a node in the state, launched an hour ago.
func in(state v1alpha1.NodeState, name v1alpha1.NodeName, change ...func(*Candidate)) Candidate {
	m := Candidate{Node: name, State: state, Launched: ago(time.Hour), Running: ago(time.Minute)}
	for _, f := range change {
		f(&m)
	}
	return m
}

func standby(name v1alpha1.NodeName, change ...func(*Candidate)) Candidate {
	return in(v1alpha1.StateStandby, name, change...)
}

func running(name v1alpha1.NodeName, change ...func(*Candidate)) Candidate {
	return in(v1alpha1.StateRunning, name, change...)
}

func leaving(name v1alpha1.NodeName, why v1alpha1.StopReason) Candidate {
	return in(v1alpha1.StateTerminating, name, func(m *Candidate) { m.StopReason = why })
}

func drifted(m *Candidate) { m.Drift = "drifted" }
func empty(m *Candidate)   { m.Empty = true }
func held(m *Candidate)    { m.Protected = true }
func stale(m *Candidate)   { m.Stale = true }
func asked(m *Candidate)   { m.Requested = true }
func turn(m *Candidate)    { m.Turn = true }
func refreshing(name v1alpha1.NodeName) Candidate {
	return in(v1alpha1.StateWarmup, name, func(m *Candidate) { m.Refreshing = true })
}
func launched(d time.Duration) func(*Candidate) {
	return func(m *Candidate) { m.Launched = ago(d) }
}
func ran(d time.Duration) func(*Candidate) { return func(m *Candidate) { m.Running = ago(d) } }
func surplusFor(d time.Duration) func(*Candidate) {
	return func(m *Candidate) { m.SurplusSince = ago(d) }
}

// hourly is a pool of 10, whose nodes may run, be standby and be surplus for an hour, one replaced
// at a time.
func hourly(least int32) DisruptionPolicy {
	return DisruptionPolicy{PoolSize: 10, MinStandby: least, Budget: 1, MaxRuntime: time.Hour, ExpireAfter: 2 * time.Hour,
		SurplusTTL: time.Hour, Drift: true}
}

// told writes turns as "name reason".
func told(turns []Disruption) string {
	var out []string
	for _, t := range turns {
		what := string(t.Reason)
		if t.Refresh {
			what += "refresh"
		}
		out = append(out, string(t.Node)+" "+what)
	}
	return strings.Join(out, ", ")
}

func TestRecycle(t *testing.T) {
	with := func(p DisruptionPolicy, f func(*DisruptionPolicy)) DisruptionPolicy { f(&p); return p }
	for name, c := range map[string]struct {
		members []Candidate
		policy  DisruptionPolicy
		want    string
	}{
		"nothing to do": {[]Candidate{standby("a"), running("b")}, hourly(1), ""},
		"one drifted standby node at a time": {[]Candidate{standby("a", drifted), standby("b", drifted)}, hourly(2),
			"a drift"},
		"the oldest of drifted ones first": {[]Candidate{standby("a", drifted),
			standby("b", drifted, launched(3*time.Hour))}, hourly(2), "b drift"},
		"standby at the floor already":     {[]Candidate{standby("a", drifted)}, hourly(2), ""},
		"no minStandby, nothing kept back": {[]Candidate{standby("a", drifted)}, hourly(0), "a drift"},
		"the budget is taken": {[]Candidate{standby("a", drifted), standby("b"),
			leaving("c", v1alpha1.StopRuntime)}, hourly(1), ""},
		"who goes as surplus takes no budget": {[]Candidate{standby("a", drifted), standby("b"),
			leaving("c", v1alpha1.StopSurplus)}, hourly(2), "a drift"},
		"who failed takes no budget": {[]Candidate{standby("a", drifted), standby("b"),
			leaving("c", v1alpha1.StopFailed)}, hourly(2), "a drift"},
		"a larger budget": {[]Candidate{standby("a", drifted), standby("b", drifted),
			standby("c", drifted)}, with(hourly(3), func(p *DisruptionPolicy) { p.Budget = 2 }), "a drift, b drift"},
		"whose turn it was keeps it": {[]Candidate{standby("a", drifted, launched(9*time.Hour)),
			standby("b", drifted, turn)}, hourly(2), "b drift"},
		"a turn that has lost its reason": {[]Candidate{standby("a", turn), standby("b", drifted)}, hourly(2), "b drift"},
		"drift is ignored": {[]Candidate{standby("a", drifted)},
			with(hourly(0), func(p *DisruptionPolicy) { p.Drift = false }), ""},
		"expired": {[]Candidate{standby("a"), standby("b", launched(2*time.Hour))}, hourly(2),
			"b expired"},
		"expiry is for standby nodes only": {[]Candidate{running("a", launched(9*time.Hour))}, hourly(0), ""},
		"expiry switched off": {[]Candidate{standby("a", launched(9*time.Hour))},
			with(hourly(1), func(p *DisruptionPolicy) { p.ExpireAfter = 0 }), ""},
		"drifted before expired": {[]Candidate{standby("a", launched(9*time.Hour)), standby("b", drifted)},
			hourly(2), "b drift"},
		"standby before running": {[]Candidate{running("a", ran(9*time.Hour)), standby("b", drifted),
			standby("c")}, hourly(2), "b drift"},
		"standby at the floor, running may go": {[]Candidate{running("a", ran(9*time.Hour)), standby("b", drifted)}, hourly(2),
			"a runtime"},
		"running too long": {[]Candidate{running("a", ran(time.Hour)), running("b")}, hourly(0),
			"a runtime"},
		"not too long by a second": {[]Candidate{running("a", ran(time.Hour-time.Second))}, hourly(0), ""},
		"no limit": {[]Candidate{running("a", ran(9*time.Hour))},
			with(hourly(0), func(p *DisruptionPolicy) { p.MaxRuntime = 0 }), ""},
		"nobody knows since when it runs": {[]Candidate{running("a", func(m *Candidate) { m.Running = time.Time{} })},
			hourly(0), ""},
		"running too long, not to be disrupted": {[]Candidate{running("a", ran(9*time.Hour), held)}, hourly(0), ""},
		"runtime before drift": {[]Candidate{running("a", drifted, empty), running("b", ran(time.Hour))},
			hourly(0), "b runtime"},
		"drifted and in use":   {[]Candidate{running("a", drifted)}, hourly(0), ""},
		"drifted and empty":    {[]Candidate{running("a", drifted, empty)}, hourly(0), "a drift"},
		"drifted and promised": {[]Candidate{standby("a", drifted, held)}, hourly(0), ""},
		"starting and stopping ones stay": {[]Candidate{in(v1alpha1.StateStarting, "a", drifted),
			in(v1alpha1.StateStopping, "b", drifted), in(v1alpha1.StateWarmup, "c", drifted)}, hourly(0), ""},
		"all of a full pool standby": {[]Candidate{standby("a", drifted), standby("b", drifted)},
			with(hourly(2), func(p *DisruptionPolicy) { p.PoolSize = 2 }), "a drift"},
		"running nodes leave less room for it": {[]Candidate{standby("a", drifted), running("b"), running("c")},
			with(hourly(3), func(p *DisruptionPolicy) { p.PoolSize = 3 }), "a drift"},
		"asked for, in use": {[]Candidate{running("a", asked)}, hourly(0), "a requested"},
		"asked for, whatever the pool says about drift": {[]Candidate{standby("a", asked, drifted)},
			with(hourly(0), func(p *DisruptionPolicy) { p.Drift = false }), "a requested"},
		"asked for, in a pool that keeps its surplus": {[]Candidate{standby("a", asked), standby("b")},
			with(hourly(1), func(p *DisruptionPolicy) { p.SurplusTTL = 0 }), "a requested"},
		"asked for before drifted and older": {[]Candidate{standby("a", drifted, launched(9*time.Hour)), standby("b", asked)},
			hourly(2), "b requested"},
		"asked for before running too long": {[]Candidate{running("a", ran(9*time.Hour)), running("b", asked)}, hourly(0),
			"b requested"},
		"asked for, standby at the floor": {[]Candidate{standby("a", asked)}, hourly(2), ""},
		"asked for, the budget is taken":  {[]Candidate{running("a", asked), leaving("b", v1alpha1.StopRequested)}, hourly(0), ""},
		"asked for, not to be disrupted":  {[]Candidate{running("a", asked, held)}, hourly(0), ""},
		"asked for, and it arrives later": {[]Candidate{in(v1alpha1.StateStarting, "a", asked),
			in(v1alpha1.StateStopping, "b", asked), in(v1alpha1.StateWarmup, "c", asked)}, hourly(0), ""},
		"surplus: asked for goes first": {[]Candidate{standby("a", surplusFor(time.Hour)), standby("b", drifted),
			standby("c", asked)}, hourly(2), "b drift, c surplus"},
		"one with stale images at a time": {[]Candidate{standby("a", stale), standby("b", stale)}, hourly(2),
			"a refresh"},
		"stale images, standby at the floor": {[]Candidate{standby("a", stale)}, hourly(2), ""},
		"stale images, no minStandby":        {[]Candidate{standby("a", stale)}, hourly(0), "a refresh"},
		"stale images, a budget of two, one on": {[]Candidate{refreshing("a"), standby("b", stale), standby("c", stale)},
			with(hourly(2), func(p *DisruptionPolicy) { p.Budget = 2 }), "b refresh"},
		"stale images, one is being replaced": {[]Candidate{standby("a", stale), standby("b"),
			leaving("c", v1alpha1.StopDrift)}, hourly(1), ""},
		"drifted, one is being refreshed": {[]Candidate{standby("a", drifted), standby("b"), refreshing("c")}, hourly(1),
			""},
		"more under way than a lowered budget": {[]Candidate{standby("a", stale), refreshing("b"), refreshing("c"),
			refreshing("d")}, hourly(0), ""},
		"stale images, promised":    {[]Candidate{standby("a", stale, held)}, hourly(0), ""},
		"stale images, and drifted": {[]Candidate{standby("a", stale, drifted)}, hourly(0), "a drift"},
		"stale images, another drifted": {[]Candidate{standby("a", stale), standby("b", drifted)}, hourly(1),
			"b drift"},
		"stale images, whose turn it was": {[]Candidate{standby("a", stale), standby("b", stale, turn)}, hourly(1),
			"b refresh"},
		"stale images, another runs too long": {[]Candidate{standby("a", stale), running("b", ran(time.Hour))}, hourly(1),
			"a refresh"},
		"stale images, surplus for its time": {[]Candidate{standby("a", stale, surplusFor(time.Hour))}, hourly(0),
			"a surplus"},
		"stale images in use": {[]Candidate{running("a", stale, empty)}, hourly(0), ""},
		"surplus, not long enough": {[]Candidate{standby("a", surplusFor(time.Minute)), standby("b")}, hourly(1),
			""},
		"surplus for its time": {[]Candidate{standby("a", surplusFor(time.Hour)), standby("b")}, hourly(1),
			"a surplus"},
		"surplus: drifted goes first": {[]Candidate{standby("a", surplusFor(time.Hour)), standby("b", drifted),
			standby("c")}, with(hourly(2), func(p *DisruptionPolicy) { p.Budget = 1 }), "b surplus"},
		"surplus: the oldest goes first": {[]Candidate{standby("a", surplusFor(time.Hour)),
			standby("b", launched(90*time.Minute))}, hourly(1), "b surplus"},
		"surplus knows no budget": {[]Candidate{standby("a", surplusFor(time.Hour)),
			standby("b", surplusFor(time.Hour)), standby("c", surplusFor(time.Hour))}, hourly(0),
			"a surplus, b surplus, c surplus"},
		"surplus forever": {[]Candidate{standby("a", surplusFor(99*time.Hour))},
			with(hourly(0), func(p *DisruptionPolicy) { p.SurplusTTL = 0 }), ""},
		"a mark without surplus": {[]Candidate{standby("a", surplusFor(time.Hour))}, hourly(1), ""},
		"above poolSize: standby, oldest first": {[]Candidate{standby("a"), standby("b", launched(90*time.Minute)),
			running("c")}, with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 2 }), "b surplus"},
		"above poolSize: running in use stays": {[]Candidate{running("a"), running("b"), running("c")},
			with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 1 }), ""},
		"above poolSize: empty running goes": {[]Candidate{running("a"), running("b", empty), running("c")},
			with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 1 }), "b surplus"},
		"above poolSize: no more than that": {[]Candidate{running("a", empty), running("b", empty), standby("c")},
			with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 1 }), "a surplus, c surplus"},
		"above poolSize: promised ones stay": {[]Candidate{standby("a", held), standby("b", held)},
			with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 1 }), ""},
		"above poolSize: who goes counts": {[]Candidate{standby("a"), leaving("b", v1alpha1.StopDrift)},
			with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 1 }), ""},
		"above poolSize: instances without Node": {[]Candidate{in(v1alpha1.StateWarmup, ""), in(v1alpha1.StateWarmup, ""),
			standby("a")}, with(hourly(1), func(p *DisruptionPolicy) { p.PoolSize = 2 }), "a surplus"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Recycle(c.members, c.policy, epoch())
			if diff := cmp.Diff(c.want, told(got)); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
			for _, turn := range got {
				if turn.Why == "" {
					t.Errorf("%s goes without words", turn.Node)
				}
			}
		})
	}
}

func TestSurplusMarksStayWhereTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		members []Candidate
		least   int32
		want    []v1alpha1.NodeName
	}{
		"none": {[]Candidate{standby("a")}, 1, nil},
		"the oldest": {[]Candidate{standby("a"), standby("b", launched(2*time.Hour))}, 1,
			[]v1alpha1.NodeName{"b"}},
		"the one that is marked": {[]Candidate{standby("a", surplusFor(time.Minute)),
			standby("b", launched(2*time.Hour))}, 1, []v1alpha1.NodeName{"a"}},
		"the one that is marked longest": {[]Candidate{standby("a", surplusFor(time.Minute)),
			standby("b", surplusFor(time.Hour)), standby("c")}, 2, []v1alpha1.NodeName{"b"}},
		"one that is promised is no longer": {[]Candidate{standby("a", held), standby("b")}, 1, nil},
		"drift moves no mark": {[]Candidate{standby("a", surplusFor(time.Minute)), standby("b", drifted)}, 1,
			[]v1alpha1.NodeName{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Surplus(c.members, hourly(c.least)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
}

// anyPool is a random pool and policy.
func anyPool(r *rand.Rand) ([]Candidate, DisruptionPolicy) {
	p := DisruptionPolicy{PoolSize: 1 + r.Int32N(8), Budget: 1 + r.Int32N(3), Drift: r.IntN(4) > 0}
	p.MinStandby = r.Int32N(p.PoolSize + 1)
	for _, d := range []*time.Duration{&p.MaxRuntime, &p.ExpireAfter, &p.SurplusTTL} {
		*d = time.Duration(r.IntN(3)) * time.Hour
	}
	states := []v1alpha1.NodeState{v1alpha1.StateStandby, v1alpha1.StateStandby, v1alpha1.StateRunning,
		v1alpha1.StateRunning, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateWarmup,
		v1alpha1.StateTerminating}
	reasons := []v1alpha1.StopReason{v1alpha1.StopDrift, v1alpha1.StopRuntime, v1alpha1.StopExpired, v1alpha1.StopSurplus,
		v1alpha1.StopFailed, v1alpha1.StopRequested}
	var members []Candidate
	for i := range r.IntN(12) {
		m := Candidate{Node: v1alpha1.NodeName(rune('a' + i)), State: states[r.IntN(len(states))],
			Launched: ago(time.Duration(r.IntN(4)) * time.Hour)}
		m.Running, m.Empty, m.Protected, m.Turn = ago(time.Duration(r.IntN(4))*time.Hour), r.IntN(2) == 0, r.IntN(4) == 0,
			r.IntN(5) == 0
		m.Requested = r.IntN(6) == 0
		if r.IntN(2) == 0 {
			m.Drift = "drifted"
		}
		if m.State == v1alpha1.StateStandby && r.IntN(2) == 0 {
			m.SurplusSince = ago(time.Duration(r.IntN(4)) * time.Hour)
		}
		m.Stale, m.Refreshing = r.IntN(3) == 0, m.State == v1alpha1.StateWarmup && r.IntN(4) == 0
		if m.State == v1alpha1.StateTerminating {
			m.StopReason = reasons[r.IntN(len(reasons))]
		}
		members = append(members, m)
	}
	return members, p
}

// tally is what a list of turns takes from a pool.
type tally struct{ replaced, replacedStandby, standby, total, free int }

func count(t *testing.T, members []Candidate, turns []Disruption) tally {
	t.Helper()
	c := tally{}
	for _, m := range members {
		if m.State == v1alpha1.StateTerminating {
			if IsReplacement(m.StopReason) {
				c.replaced++
			}
			continue
		}
		c.total++
		if m.Refreshing {
			c.replaced++
		}
		i := slices.IndexFunc(turns, func(t Disruption) bool { return t.Node == m.Node })
		isStandby := m.State == v1alpha1.StateStandby
		switch {
		case i < 0 && isStandby && !m.Protected:
			c.standby++
		case i < 0:
		case m.Protected || m.State == v1alpha1.StateStarting || m.State == v1alpha1.StateStopping ||
			m.State == v1alpha1.StateWarmup:
			t.Fatalf("%+v was taken for %+v", m, turns[i])
		case m.State == v1alpha1.StateRunning && !m.Empty && !turns[i].Reason.TakesInUse():
			t.Fatalf("%+v was taken in use for %+v", m, turns[i])
		case IsReplacement(turns[i].Reason), turns[i].Refresh:
			c.replaced++
			if isStandby {
				c.replacedStandby++
			}
		}
	}
	return c
}

// Whatever the pool looks like: no more are replaced at once than the budget, standby stays at
// minStandby less the budget as far as poolSize allows, surplus goes no further than minStandby and
// poolSize, and the order of the members says nothing.
func TestRecyclingKeepsWithinBounds(t *testing.T) {
	seen := tally{}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same worlds each time
		members, p := anyPool(r)
		turns := Recycle(members, p, epoch())
		before, after := count(t, members, nil), count(t, members, turns)
		if after.replaced > max(int(p.Budget), before.replaced) {
			t.Fatalf("seed %d: %d replaced at once with a budget of %d: %s of %+v", seed, after.replaced, p.Budget, told(turns),
				members)
		}
		if after.replacedStandby > 0 && after.standby < floor(members, p) {
			t.Fatalf("seed %d: %d standby left, floor %d: %s of %+v %+v", seed, after.standby, floor(members, p), told(turns),
				members, p)
		}
		surplus := len(turns) - (after.replaced - before.replaced)
		if over := max(0, before.total-int(p.PoolSize)); surplus > over &&
			after.standby+after.replacedStandby < int(p.MinStandby) {
			t.Fatalf("seed %d: surplus went below minStandby %d: %s of %+v", seed, p.MinStandby, told(turns), members)
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if diff := cmp.Diff(turns, Recycle(members, p, epoch()), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: another order of members, other turns:\n%s", seed, diff)
		}
		seen.replaced += after.replaced - before.replaced
		seen.replacedStandby += after.replacedStandby
		seen.free += surplus
	}
	if seen.replacedStandby < 1000 || seen.replaced < 2000 || seen.free < 1000 {
		t.Fatalf("the worlds led to %+v, which is too little to prove anything", seen)
	}
}
