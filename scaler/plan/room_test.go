package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// byLooking is nodesFor by a check of each node for each pod: the specification, and too slow.
func byLooking(pods []*corev1.Pod, pattern *decide.Node) int32 {
	world := &fit.World{}
next:
	for _, p := range pods {
		pod := fit.NewPod(p, pattern.Defaults)
		for _, n := range world.Nodes {
			if world.View(pod).Fits(n) == nil {
				n.Place(pod)
				continue next
			}
		}
		fresh := pattern.Node
		fresh.Name += "+"
		for range world.Nodes {
			fresh.Name += "+"
		}
		fresh.Labels = withHostname(pattern.Labels, string(fresh.Name))
		with := &fit.World{Nodes: append(slices.Clone(world.Nodes), &fresh)}
		if with.View(pod).Fits(&fresh) == nil {
			fresh.Place(pod)
			world = with
		}
	}
	return int32(len(world.Nodes))
}

// TestNodesForSkipsNoNode: the nodes that are not looked at would not have taken the pod.
func TestNodesForSkipsNoNode(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		var pods []*corev1.Pod
		for i := range 1 + dice.IntN(60) {
			p := cpuPods(1, fmt.Sprintf("%dm", dice.IntN(45)*100))[0]
			p.Name = fmt.Sprint(i)
			p.Labels = map[string]string{"app": fmt.Sprint(dice.IntN(3))}
			switch dice.IntN(12) {
			case 0:
				onPort(p)
			case 1:
				apart(p)
			}
			pods = append(pods, p)
		}
		pattern := &decide.Node{Node: fit.Node{Name: "n", Allocatable: fit.Resources{MilliCPU: 4000,
			Pods: int64(2 + dice.IntN(9))}}}
		if got, want := nodesFor(pods, pattern), byLooking(pods, pattern); got != want {
			t.Fatalf("seed %d: %d nodes, want %d", seed, got, want)
		}
	}
}

// TestRoomFindsTheFirst compares the tree with a check of each node. That the most of each resource
// is below one place does not mean that one node has it all.
func TestRoomFindsTheFirst(t *testing.T) {
	dice, r, nodes := rand.New(rand.NewPCG(1, 0)), room{}, []left(nil)
	some := func() left { return left{dice.Int64N(5) - 1, dice.Int64N(5) - 1, dice.Int64N(3), dice.Int64N(3)} }
	for range 4000 {
		switch {
		case len(nodes) < 37 && dice.IntN(20) == 0:
			nodes = append(nodes, some())
			r.add(nodes[len(nodes)-1])
		case len(nodes) > 0 && dice.IntN(2) == 0:
			i := dice.IntN(len(nodes))
			nodes[i] = some()
			r.set(i, nodes[i])
		}
		need := fit.Resources{MilliCPU: dice.Int64N(4), Memory: dice.Int64N(4), EphemeralStorage: dice.Int64N(2),
			Pods: dice.Int64N(2)}
		from, want := dice.IntN(len(nodes)+1), -1
		for i := from; i < len(nodes) && want < 0; i++ {
			offered := fit.Resources{MilliCPU: nodes[i].cpu, Memory: nodes[i].memory, EphemeralStorage: nodes[i].storage,
				Pods: nodes[i].pods}
			if offered.Short(need) == "" {
				want = i
			}
		}
		if got := r.next(from, need); got != want {
			t.Fatalf("from %d of %v: found %d for %+v, want %d", from, nodes, got, need, want)
		}
	}
}
