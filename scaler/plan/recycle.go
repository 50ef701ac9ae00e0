package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Candidate is one instance of a pool as recycling sees it.
type Candidate struct {
	// Node is empty while the instance has none.
	Node  v1alpha1.NodeName
	State v1alpha1.NodeState
	// StopReason is why a terminating node goes.
	StopReason v1alpha1.StopReason
	// Launched is when the instance began, Running when the node last became running, SurplusSince
	// since when it is marked as surplus.
	Launched, Running, SurplusSince time.Time
	// Drift says how the node differs from what would be launched now; empty for one that does not.
	Drift string
	// Requested: a person asked for the node to be replaced.
	Requested bool
	// Empty: no workload pod is on the node and none has a claim there.
	Empty bool
	// Withheld: a person has kept the standby node from starting for so long that it does not count as
	// standby.
	Withheld bool
	// Protected: the node must not be disrupted now. A pod has a claim on a standby one; a running one
	// or a pod on it is annotated so, or its drain backs off.
	Protected bool
	// Turn: it was the node's turn already, and that does not show in its state yet.
	Turn bool
	// Stale: images that the pool wants are not on the node, and nothing keeps it from being started
	// to pull them.
	Stale bool
	// Refreshing: a node that was complete before is warming up to pull images.
	Refreshing bool
}

// DisruptionPolicy is what a pool asks for.
type DisruptionPolicy struct {
	PoolSize, MinStandby int32
	// Budget bounds how many nodes are being replaced at once.
	Budget int32
	// MaxRuntime, ExpireAfter and SurplusTTL are off where they are 0.
	MaxRuntime, ExpireAfter, SurplusTTL time.Duration
	// Drift: nodes that differ from what would be launched now are replaced.
	Drift bool
}

// Disruption says that a node is to go now, or to pull images, and why.
type Disruption struct {
	Node v1alpha1.NodeName
	// Reason is why the node goes; empty for one that stays and only pulls images, where Refresh is
	// true.
	Reason  v1alpha1.StopReason
	Refresh bool
	Why     string
}

// None reports whether the node is not disrupted.
func (t Disruption) None() bool { return t.Reason == "" && !t.Refresh }

// Recycle lists the nodes to terminate or to refresh now, sorted by name. Surplus goes without a
// budget, because nothing is launched in its place and it never takes standby below minStandby.
// What is replaced or refreshed goes within the budget, standby nodes first, and only while standby
// stays at minStandby, as far as poolSize allows it, less the budget.
func Recycle(members []Candidate, p DisruptionPolicy, now time.Time) []Disruption {
	members = inOrder(members)
	turns := excess(members, p)
	turns = append(turns, outlived(without(members, turns), p, now)...)
	turns = append(turns, replaced(without(members, turns), p, now)...)
	slices.SortFunc(turns, func(a, b Disruption) int { return cmp.Compare(a.Node, b.Node) })
	return turns
}

// excess are the nodes above poolSize: standby ones at once, then running ones that are empty.
// Those in use stay until they are.
func excess(members []Candidate, p DisruptionPolicy) []Disruption {
	over := -int(p.PoolSize)
	for i := range members {
		if members[i].State != v1alpha1.StateTerminating {
			over++
		}
	}
	var turns []Disruption
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateStandby, v1alpha1.StateRunning} {
		for i := range members {
			m := &members[i]
			if len(turns) >= over || m.State != state || m.Protected || state == v1alpha1.StateRunning && !m.Empty {
				continue
			}
			turns = append(turns, Disruption{Node: m.Node, Reason: v1alpha1.StopSurplus,
				Why: fmt.Sprintf("the pool has more nodes than its poolSize of %d", p.PoolSize)})
		}
	}
	return turns
}

// Surplus lists the standby nodes above minStandby, those that are marked as surplus longest first,
// so that a mark stays where it is.
func Surplus(members []Candidate, p DisruptionPolicy) []v1alpha1.NodeName {
	var out []v1alpha1.NodeName
	for _, m := range surplus(members, p) {
		out = append(out, m.Node)
	}
	return out
}

func surplus(members []Candidate, p DisruptionPolicy) []Candidate {
	free := standing(inOrder(members))
	slices.SortStableFunc(free, func(a, b Candidate) int {
		switch {
		case a.SurplusSince.Equal(b.SurplusSince):
			return 0
		case a.SurplusSince.IsZero():
			return 1
		case b.SurplusSince.IsZero():
			return -1
		}
		return a.SurplusSince.Compare(b.SurplusSince)
	})
	return free[:max(0, len(free)-int(p.MinStandby))]
}

// outlived are as many standby nodes as were surplus for the time that surplus is kept: drifted
// ones go first, then the oldest.
func outlived(members []Candidate, p DisruptionPolicy, now time.Time) []Disruption {
	due := 0
	for _, m := range surplus(members, p) {
		if p.SurplusTTL > 0 && !m.SurplusSince.IsZero() && now.Sub(m.SurplusSince) >= p.SurplusTTL {
			due++
		}
	}
	var turns []Disruption
	for _, m := range standing(members)[:due] {
		turns = append(turns, Disruption{Node: m.Node, Reason: v1alpha1.StopSurplus,
			Why: fmt.Sprintf("standby was above minStandby for %s", p.SurplusTTL)})
	}
	return turns
}

// replaced are the nodes for which others are launched, and those that leave standby for a while to
// pull images.
func replaced(members []Candidate, p DisruptionPolicy, now time.Time) []Disruption {
	left := int(p.Budget)
	for i := range members {
		if members[i].Refreshing || members[i].State == v1alpha1.StateTerminating && IsReplacement(members[i].StopReason) {
			left--
		}
	}
	stood, least := len(standing(members)), floor(members, p)
	standby := stood
	var turns []Disruption
	for _, m := range candidates(members, p, now) {
		switch {
		case left <= 0:
			return turns
		case m.Withheld: // no pod waits for it
		case m.State == v1alpha1.StateStandby && standby <= least, m.keeps(p, stood, now):
			continue
		case m.State == v1alpha1.StateStandby:
			standby--
		}
		left--
		turns = append(turns, m.disruption(p, now))
	}
	return turns
}

// keeps reports whether a standby node that drifted stays. A pool with standbySurplusTTL 0s keeps
// what is standby above minStandby forever, and nothing would be launched in its place: one new
// image would take all of its warm nodes.
func (m *Candidate) keeps(p DisruptionPolicy, stood int, now time.Time) bool {
	drifted := m.State == v1alpha1.StateStandby && m.disruption(p, now).Reason == v1alpha1.StopDrift
	return drifted && !m.expired(p, now) && p.SurplusTTL == 0 && stood > int(p.MinStandby)
}

// floor is how many standby nodes stay: minStandby, as far as the nodes in use leave room for it in
// poolSize, less the budget.
func floor(members []Candidate, p DisruptionPolicy) int {
	room := int(p.PoolSize)
	for i := range members {
		switch members[i].State {
		case v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateStopping:
			room--
		case v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateTerminating:
		}
	}
	return min(int(p.MinStandby), room) - int(p.Budget)
}

// candidates are the nodes that are to be replaced or refreshed, in order: those chosen already,
// whose place in the budget is taken; standby ones, those to be refreshed last; running ones above
// their time; running ones that drifted. Those whose replacement a person asked for come first
// among standby ones, and with those above their time among running ones.
func candidates(members []Candidate, p DisruptionPolicy, now time.Time) []Candidate {
	var out []Candidate
	for _, m := range members {
		if !m.disruption(p, now).None() {
			out = append(out, m)
		}
	}
	rank := func(m *Candidate) int {
		switch {
		case m.Turn:
			return 0
		case m.disruption(p, now).Refresh:
			return 2
		case m.State == v1alpha1.StateStandby:
			return 1
		case m.disruption(p, now).Reason.TakesInUse():
			return 3
		}
		return 4
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return rank(&a) - rank(&b) })
	return out
}

// disruption is why the node is to be replaced or refreshed, if it is.
func (m *Candidate) disruption(p DisruptionPolicy, now time.Time) Disruption {
	drifted := p.Drift && m.Drift != ""
	switch {
	case m.Protected:
	case m.Requested && m.hasArrived():
		return Disruption{Node: m.Node, Reason: v1alpha1.StopRequested,
			Why: "its replacement was asked for (" + v1alpha1.AnnotationReplace + ")"}
	case m.State == v1alpha1.StateStandby && drifted, m.State == v1alpha1.StateRunning && drifted && m.Empty:
		return Disruption{Node: m.Node, Reason: v1alpha1.StopDrift, Why: m.Drift}
	case m.State == v1alpha1.StateStandby && m.expired(p, now):
		return Disruption{Node: m.Node, Reason: v1alpha1.StopExpired,
			Why: fmt.Sprintf("launched %s ago or more (disruption.expireAfter)", p.ExpireAfter)}
	case m.State == v1alpha1.StateStandby && m.Stale:
		return Disruption{Node: m.Node, Refresh: true, Why: "images have changed or are missing"}
	case m.State == v1alpha1.StateRunning && m.pastMaxRuntime(p, now):
		return Disruption{Node: m.Node, Reason: v1alpha1.StopRuntime,
			Why: fmt.Sprintf("running for %s or more (maxNodeRuntime)", p.MaxRuntime)}
	}
	return Disruption{}
}

// hasArrived reports whether the node is in a state in which it may be told to go.
func (m *Candidate) hasArrived() bool {
	return m.State == v1alpha1.StateStandby || m.State == v1alpha1.StateRunning
}

func (m *Candidate) expired(p DisruptionPolicy, now time.Time) bool {
	return p.ExpireAfter > 0 && now.Sub(m.Launched) >= p.ExpireAfter
}

func (m *Candidate) pastMaxRuntime(p DisruptionPolicy, now time.Time) bool {
	return p.MaxRuntime > 0 && !m.Running.IsZero() && now.Sub(m.Running) >= p.MaxRuntime
}

// IsReplacement reports whether a node that goes for the reason is replaced and so counts against
// the budget.
func IsReplacement(r v1alpha1.StopReason) bool {
	return r == v1alpha1.StopDrift || r == v1alpha1.StopExpired || r.TakesInUse()
}

// inOrder sorts a copy: nodes whose replacement a person asked for first, then drifted ones, then
// the oldest, names last so that equal input gives equal output.
func inOrder(members []Candidate) []Candidate {
	out := slices.Clone(members)
	slices.SortFunc(out, func(a, b Candidate) int {
		if a.Requested != b.Requested {
			return before(a.Requested)
		}
		if (a.Drift != "") != (b.Drift != "") {
			return before(a.Drift != "")
		}
		return cmp.Or(a.Launched.Compare(b.Launched), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// before is the comparison of two of which one comes first.
func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

// standing are the standby nodes without claims that may be started.
func standing(members []Candidate) []Candidate {
	var out []Candidate
	for _, m := range members {
		if m.State == v1alpha1.StateStandby && !m.Protected && !m.Withheld {
			out = append(out, m)
		}
	}
	return out
}

// without leaves out the nodes of the disruptions.
func without(members []Candidate, turns []Disruption) []Candidate {
	leaves := make(map[v1alpha1.NodeName]bool, len(turns))
	for _, t := range turns {
		leaves[t.Node] = true
	}
	return slices.DeleteFunc(slices.Clone(members), func(m Candidate) bool { return m.Node != "" && leaves[m.Node] })
}
