package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// PoolNodes is a pool with its nodes. Nothing in it is changed afterwards.
type PoolNodes struct {
	Pool *v1alpha1.NodePool
	// Nodes are as a pod would find each of them that is alone there with the pods of DaemonSets,
	// sorted by name.
	Nodes []*decide.Node
	// Patterns are what a new node of the pool may be like: of each instance type the first Node by
	// name whose kubelet has reported what it offers.
	Patterns []*corev1.Node
}

// Pools returns all pools with their nodes, sorted by name. It is asked about each pending pod, so
// it is computed only after a Node or a pool has changed.
func (s *State) Pools() []PoolNodes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poolNodes == nil {
		s.poolNodes = s.makePools()
	}
	return s.poolNodes
}

// PausedPools says of each pool whether it is paused.
func (s *State) PausedPools() map[v1alpha1.PoolName]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[v1alpha1.PoolName]bool, len(s.pools))
	for name, p := range s.pools {
		out[name] = p.IsPaused()
	}
	return out
}

// makePools computes Pools. The caller holds mu.
func (s *State) makePools() []PoolNodes {
	members := map[v1alpha1.PoolName][]*nodeInfo{}
	for _, e := range s.nodes {
		if e.base != nil && e.base.InPool() {
			members[e.base.Pool] = append(members[e.base.Pool], e)
		}
	}
	pools := make([]PoolNodes, 0, len(s.pools))
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		of := members[name]
		slices.SortFunc(of, func(a, b *nodeInfo) int { return strings.Compare(string(a.base.Name), string(b.base.Name)) })
		p := PoolNodes{Pool: s.pools[name], Nodes: make([]*decide.Node, len(of))}
		for i, e := range of {
			p.Nodes[i] = e.base
			if len(e.object.Status.Allocatable) > 0 && !slices.ContainsFunc(p.Patterns, sameType(e.object)) {
				p.Patterns = append(p.Patterns, e.object)
			}
		}
		pools = append(pools, p)
	}
	return pools
}

func sameType(a *corev1.Node) func(b *corev1.Node) bool {
	const label = corev1.LabelInstanceTypeStable
	return func(b *corev1.Node) bool { return a.Labels[label] == b.Labels[label] }
}

// IsPublished reports whether some replica has published a claim of the pod on a node of a pool.
func (s *State) IsPublished(pod types.UID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.nodes[s.published[pod]]
	return e != nil && e.node != nil && e.node.InPool()
}
