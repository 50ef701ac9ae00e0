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
func (v *State) Lookup(names [][]byte, into *Candidates) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	v.lookup(names, into)
}

func (v *State) lookup(names [][]byte, into *Candidates) {
	nodes := slices.Grow((*into)[:0], len(names))
	for _, name := range names {
		e := v.nodes[v1alpha1.NodeName(name)]
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
func (v *State) Decide(pod *corev1.Pod, names [][]byte, memory *Candidates, now time.Time) decide.Decision {
	v.mu.Lock()
	defer v.unlock()
	v.lookup(names, memory)
	return v.decide(pod, memory.Present(), now)
}

// Place is Decide among the nodes that the pod fits by our own judgement. That takes a while, so it
// is made before, and what has become of the nodes since is looked at anew.
func (v *State) Place(pod *corev1.Pod, now time.Time) decide.Decision {
	nodes := v.Fitting(pod)
	v.mu.Lock()
	defer v.unlock()
	kept := nodes[:0]
	for _, n := range nodes {
		if is := v.nodeOf(n.Name); is != nil {
			kept = append(kept, is)
		}
	}
	return v.decide(pod, kept, now)
}

// decide decides about nodes of this moment. The caller holds mu.
func (v *State) decide(pod *corev1.Pod, nodes []*decide.Node, now time.Time) decide.Decision {
	if v.isDone(pod) { // no event would ever end a claim that it got now
		return decide.Decision{Kind: decide.NotOurs}
	}
	d := v.claims.Decide(decide.Ask{Pod: pod, Nodes: nodes, World: v.snapshot}, now)
	v.claimsEnded(d.Displaced, now)
	return d
}

// Preemptable reports whether the node may lose the victims for the pod.
func (v *State) Preemptable(pod *corev1.Pod, name v1alpha1.NodeName, victims []*extenderv1.MetaPod) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := v.without(name, victims)
	return n != nil && v.claims.Preemptable(pod, n)
}

// without is the node once the victims have left it; nil if the cluster state does not know the
// node.
func (v *State) without(name v1alpha1.NodeName, victims []*extenderv1.MetaPod) *decide.Node {
	e := v.nodes[name]
	if e == nil || e.node == nil {
		return nil
	}
	left := &nodeInfo{pods: maps.Clone(e.pods), used: e.used.Clone(), placed: e.placed, hostPortPods: e.hostPortPods}
	for _, victim := range victims {
		left.remove(types.UID(victim.UID))
	}
	n := *e.node
	n.Used, n.Ports, n.Pods = left.used, left.ports(), left.placed
	return &n
}

// isDone reports whether the pod is bound, terminating or gone, as the asker or our watch knows it.
// A pod that our watch does not know yet is not over: the scheduler's watch may be ahead.
func (v *State) isDone(pod *corev1.Pod) bool {
	_, counts := v.podNode[pod.UID]
	_, gone := v.gone[pod.UID]
	return pod.DeletionTimestamp != nil || (counts || gone) && v.pending[pod.UID] == nil
}

// World returns all nodes with the pods on them. It is not changed afterwards.
func (v *State) World() *fit.World {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.snapshot()
}

// snapshot is World. What it costs is one copy of the list, unless nodes have come or gone. The
// caller holds mu.
func (v *State) snapshot() *fit.World {
	switch {
	case v.world == nil:
		v.world = v.makeWorld()
	case len(v.changedNodes) > 0:
		v.world = &fit.World{Nodes: slices.Clone(v.world.Nodes), Namespaces: v.world.Namespaces}
		for name := range v.changedNodes {
			if at, found := slices.BinarySearchFunc(v.world.Nodes, name, byName); found {
				v.world.Nodes[at] = v.nodes[name].topologyNode()
			}
		}
	}
	clear(v.changedNodes)
	return v.world
}

func (v *State) makeWorld() *fit.World {
	w := &fit.World{Nodes: make([]*fit.Node, 0, len(v.nodes)), Namespaces: maps.Clone(v.namespaces)}
	for _, e := range v.nodes {
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
func (v *State) changed(e *nodeInfo, was *decide.Node) {
	switch {
	case v.world == nil:
	// nobody asks any more, and a world that is not asked for would keep old nodes alive
	case was == nil, len(v.changedNodes) > len(v.nodes)/2:
		v.world = nil
		clear(v.changedNodes)
	default:
		v.changedNodes[e.node.Name] = true
	}
}
