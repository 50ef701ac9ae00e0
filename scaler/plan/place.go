package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// placement are the nodes opened so far. Pods are placed one by one as claims are: on the first
// node with room, else on a new one.
type placement struct {
	world *fit.World
	room  room
	// repelled: some pod that was placed keeps others away.
	repelled bool
}

// fits places the pod on the first node that takes it, and reports whether there is one.
func (p *placement) fits(pod *fit.Pod) bool {
	view := p.world.View(pod)
	for i := p.room.next(0, pod.Requests); i >= 0; i = p.room.next(i+1, pod.Requests) {
		n := p.world.Nodes[i]
		if p.alone(pod) { // what is on other nodes does not matter, and counting it for each pod would
			view = (&fit.World{Nodes: p.world.Nodes[i : i+1]}).View(pod)
		}
		if view.Fits(n) == nil {
			p.place(pod, i)
			return true
		}
	}
	return false
}

// alone reports whether the pod looks at no other node than the one that it is placed on.
func (p *placement) alone(pod *fit.Pod) bool {
	return !p.repelled && len(pod.Affinity) == 0 && len(pod.AntiAffinity) == 0 && len(pod.Spread) == 0
}

// open places the pod on a new node, unless that refuses it too.
func (p *placement) open(pod *fit.Pod, pattern *decide.Node) {
	fresh := pattern.Node
	fresh.Name = v1alpha1.NodeName(fmt.Sprintf("%s+%d", pattern.Name, len(p.world.Nodes)+1))
	fresh.Used, fresh.Ports, fresh.Pods = fit.Resources{}, nil, nil
	fresh.Expect(pattern.Daemons, nil)
	fresh.Labels = withHostname(pattern.Labels, string(fresh.Name))
	world := &fit.World{Nodes: append(p.world.Nodes, &fresh)}
	if p.alone(pod) {
		world.Nodes = []*fit.Node{&fresh}
	}
	if world.View(pod).Fits(&fresh) != nil {
		return
	}
	p.world.Nodes = append(p.world.Nodes, &fresh)
	p.room.add(leftOn(&fresh))
	p.place(pod, len(p.world.Nodes)-1)
}

func (p *placement) place(pod *fit.Pod, node int) {
	n := p.world.Nodes[node]
	n.Place(pod)
	p.room.set(node, leftOn(n))
	p.repelled = p.repelled || len(pod.AntiAffinity) > 0
}

// withHostname makes the node a topology domain of its own.
func withHostname(labels map[string]string, name string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		out[k] = v
	}
	out[corev1.LabelHostname] = name
	return out
}
