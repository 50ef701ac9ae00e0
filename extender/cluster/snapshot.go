package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Candidates are nodes in the order in which they were named; nil stands for one that the cluster
// state does not know: it is newer than our watch, and the scheduler asks again.
type Candidates []*decide.Node

// Lookup looks up the named nodes into the given memory. The names are not kept.
func (s *State) Lookup(names [][]byte, into *Candidates) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.lookup(names, into)
}

func (s *State) lookup(names [][]byte, into *Candidates) {
	nodes := slices.Grow((*into)[:0], len(names))
	for _, name := range names {
		e := s.nodes[v1alpha1.NodeName(name)]
		if e == nil {
			nodes = append(nodes, nil)
		} else {
			nodes = append(nodes, e.node)
		}
	}
	*into = nodes
}

// Present leaves out the nodes that the cluster state does not know.
func (l *Candidates) Present() []*decide.Node {
	*l = slices.DeleteFunc(*l, func(n *decide.Node) bool { return n == nil })
	return *l
}

// Decide answers where the pod can go among the named nodes, and makes the claim that follows. The
// memory is for the nodes; the decision does not keep it.
func (s *State) Decide(pod *corev1.Pod, names [][]byte, memory *Candidates, now time.Time) decide.Decision {
	s.mu.Lock()
	defer s.unlock()
	s.lookup(names, memory)
	return s.decide(pod, memory.Present(), true, now)
}

// Place is Decide among the nodes that the pod fits by our own check. That check takes a while, so
// it runs before, and what has become of the nodes since is read again.
func (s *State) Place(pod *corev1.Pod, now time.Time) decide.Decision {
	nodes := s.Fitting(pod)
	s.mu.Lock()
	defer s.unlock()
	return s.decide(pod, s.present(nodes), false, now)
}

// decide decides about the present nodes, because a scheduler has asked or not. The caller holds
// mu.
func (s *State) decide(pod *corev1.Pod, nodes []*decide.Node, asked bool, now time.Time) decide.Decision {
	if s.isDone(pod) { // no event would ever end a claim that it got now
		return decide.Decision{Kind: decide.NotOurs}
	}
	if asked {
		s.claims.RecordQuestion(pod.UID)
	}
	s.askedPod(pod, now)
	d := s.claims.Decide(decide.Ask{Pod: pod, Nodes: nodes, World: s.snapshot}, now)
	if asked && d.Kind == decide.Pass {
		s.claims.RecordPass(pod.UID, now)
	}
	s.claimsEnded(d.Displaced, now)
	if s.refusesSiblings(pod, &d) {
		s.tellSiblings(pod, nodes, asked)
	}
	return d
}

// Preemptable reports whether the node may lose the victims for the pod.
func (s *State) Preemptable(pod *corev1.Pod, name v1alpha1.NodeName, victims []*extenderv1.MetaPod) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.without(name, victims)
	return n != nil && s.claims.Preemptable(pod, n)
}

// without is the node once the victims have left it; nil if the cluster state does not know the
// node.
func (s *State) without(name v1alpha1.NodeName, victims []*extenderv1.MetaPod) *decide.Node {
	e := s.nodes[name]
	if e == nil || e.node == nil {
		return nil
	}
	left := &nodeInfo{pods: maps.Clone(e.pods), used: e.used.Clone(), placed: e.placed, hostPortPods: e.hostPortPods,
		daemons: maps.Clone(e.daemons)}
	for _, victim := range victims {
		left.remove(types.UID(victim.UID))
	}
	n := *e.node
	n.Used, n.Ports, n.Pods = left.used, left.ports(), left.placed
	return &n
}

// isDone reports whether the pod is bound, terminating or gone, as the asker or our watch knows it.
// A pod that our watch does not know yet is not over: the scheduler's watch may be ahead.
func (s *State) isDone(pod *corev1.Pod) bool {
	_, counts := s.podNode[pod.UID]
	_, gone := s.gone[pod.UID]
	return pod.DeletionTimestamp != nil || (counts || gone) && s.pending[pod.UID] == nil
}

// World returns all nodes with the pods on them. It is not changed afterwards.
func (s *State) World() *fit.World {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot()
}

// snapshot is World. What it costs is one copy of the list, unless nodes have come or gone. The
// caller holds mu.
func (s *State) snapshot() *fit.World {
	switch {
	case s.world == nil:
		s.world = s.makeWorld()
	case len(s.changedNodes) > 0:
		s.world = &fit.World{Nodes: slices.Clone(s.world.Nodes), Namespaces: s.world.Namespaces}
		for name := range s.changedNodes {
			if at, found := slices.BinarySearchFunc(s.world.Nodes, name, byName); found {
				s.world.Nodes[at] = s.nodes[name].topologyNode()
			}
		}
	}
	clear(s.changedNodes)
	return s.world
}

func (s *State) makeWorld() *fit.World {
	w := &fit.World{Nodes: make([]*fit.Node, 0, len(s.nodes)), Namespaces: maps.Clone(s.namespaces)}
	for _, e := range s.nodes {
		if e.node != nil {
			w.Nodes = append(w.Nodes, e.topologyNode())
		}
	}
	slices.SortFunc(w.Nodes, func(a, b *fit.Node) int { return byName(a, b.Name) })
	return w
}

func byName(n *fit.Node, name v1alpha1.NodeName) int {
	return strings.Compare(string(n.Name), string(name))
}

// changed takes in that the entry's nodes are new ones. The caller holds mu.
func (s *State) changed(e *nodeInfo, was *decide.Node) {
	switch {
	case s.world == nil:
	// it is not asked for any more, and a world that is not asked for would keep old nodes alive
	case was == nil, len(s.changedNodes) > len(s.nodes)/2:
		s.world = nil
		clear(s.changedNodes)
	default:
		s.changedNodes[e.node.Name] = true
	}
}
