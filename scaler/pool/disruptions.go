package pool

import (
	"slices"
	"sync"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// Disruptions are the nodes that are to be terminated or refreshed now: the pools decide, the
// nodes' lifecycle carries out. Nothing is lost with them in a crash: the next process decides
// again from what it observes.
type Disruptions struct {
	// mu guards the fields below.
	mu    sync.Mutex
	pools map[v1alpha1.PoolName]map[v1alpha1.NodeName]plan.Disruption
	// drifted are the nodes of which it was said that they drifted.
	drifted map[v1alpha1.PoolName]map[v1alpha1.NodeName]bool
}

// NewDisruptions returns a memory of no disruptions.
func NewDisruptions() *Disruptions {
	return &Disruptions{pools: map[v1alpha1.PoolName]map[v1alpha1.NodeName]plan.Disruption{},
		drifted: map[v1alpha1.PoolName]map[v1alpha1.NodeName]bool{}}
}

// Set replaces the pool's turns, and returns those that are new.
func (t *Disruptions) Set(pool v1alpha1.PoolName, list []plan.Disruption) []plan.Disruption {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, now := t.pools[pool], map[v1alpha1.NodeName]plan.Disruption{}
	for _, turn := range list {
		now[turn.Node] = turn
	}
	t.pools[pool] = now
	if len(now) == 0 {
		delete(t.pools, pool)
	}
	return slices.DeleteFunc(slices.Clone(list), func(turn plan.Disruption) bool { return before[turn.Node] == turn })
}

// Of is the node's turn, if it has one.
func (t *Disruptions) Of(pool v1alpha1.PoolName, node v1alpha1.NodeName) plan.Disruption {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pools[pool][node]
}

// noteDrift replaces the pool's drifted nodes, and returns those that are new, sorted.
func (t *Disruptions) noteDrift(pool v1alpha1.PoolName, members []plan.Candidate) []plan.Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, now := t.drifted[pool], map[v1alpha1.NodeName]bool{}
	var fresh []plan.Candidate
	for _, m := range members {
		if m.Drift == "" || m.State == v1alpha1.StateTerminating {
			continue
		}
		now[m.Node] = true
		if !before[m.Node] {
			fresh = append(fresh, m)
		}
	}
	t.drifted[pool] = now
	if len(now) == 0 {
		delete(t.drifted, pool)
	}
	return fresh
}
