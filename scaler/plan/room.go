package plan

import "github.com/stratos-sh/stratos/extender/fit"

// room finds the first of many nodes with room for some resources, without reading each: a tree
// whose inner places hold the most that any node below has left of each resource. Extended
// resources are not in it, so what it finds has to be checked.
type room struct {
	// most has the root at 1 and the nodes from leaves on.
	most   []left
	leaves int
	used   int
}

// left is an amount of each of the four native resources.
type left struct{ cpu, memory, storage, pods int64 }

func leftOn(n *fit.Node) left {
	return left{
		n.Allocatable.MilliCPU - n.Used.MilliCPU, n.Allocatable.Memory - n.Used.Memory,
		n.Allocatable.EphemeralStorage - n.Used.EphemeralStorage, n.Allocatable.Pods - n.Used.Pods,
	}
}

// holds reports whether the need fits. As in fit, what is not asked for is never short.
func (l left) holds(need fit.Resources) bool {
	return need.MilliCPU <= max(l.cpu, 0) && need.Memory <= max(l.memory, 0) &&
		need.EphemeralStorage <= max(l.storage, 0) && need.Pods <= max(l.pods, 0)
}

func greatest(a, b left) left {
	return left{max(a.cpu, b.cpu), max(a.memory, b.memory), max(a.storage, b.storage), max(a.pods, b.pods)}
}

// add appends a node.
func (r *room) add(l left) {
	if r.used == r.leaves {
		r.grow()
	}
	r.used++
	r.set(r.used-1, l)
}

// grow doubles the places for nodes.
func (r *room) grow() {
	old := r.most[r.leaves:]
	r.leaves = max(2*r.leaves, 1)
	r.most = make([]left, 2*r.leaves)
	copy(r.most[r.leaves:], old)
	for i := r.leaves - 1; i > 0; i-- {
		r.most[i] = greatest(r.most[2*i], r.most[2*i+1])
	}
}

// set takes in what a node has left now.
func (r *room) set(node int, l left) {
	i := r.leaves + node
	r.most[i] = l
	for i /= 2; i > 0; i /= 2 {
		r.most[i] = greatest(r.most[2*i], r.most[2*i+1])
	}
}

// next is the first node from the given one on that may hold the need, -1 if none does.
func (r *room) next(from int, need fit.Resources) int {
	if r.used == 0 {
		return -1
	}
	return r.search(1, 0, r.leaves, from, need)
}

// search looks below place i, which stands for the nodes from first up to end.
func (r *room) search(i, first, end, from int, need fit.Resources) int {
	if end <= from || first >= r.used || !r.most[i].holds(need) {
		return -1
	}
	if end-first == 1 {
		return first
	}
	middle := (first + end) / 2
	if found := r.search(2*i, first, middle, from, need); found >= 0 {
		return found
	}
	return r.search(2*i+1, middle, end, from, need)
}
