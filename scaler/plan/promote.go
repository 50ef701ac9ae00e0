package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Promote lists the warm nodes that the pending pods need, sorted by name. The pods are placed one
// by one: on the opened nodes, which were promoted a moment ago and which their scheduler is about
// to use, then on the warm ones. A pod that none of them takes promotes none.
func Promote(pods []*corev1.Pod, opened, warm []*decide.Node) []v1alpha1.NodeName {
	opened, warm = byName(opened), byName(warm)
	world := &fit.World{}
	for _, n := range slices.Concat(opened, warm) {
		world.Nodes = append(world.Nodes, &n.Node)
	}
	var out []v1alpha1.NodeName
	for _, p := range pods {
		for k, n := range slices.Concat(opened, warm) {
			pod := fit.NewPod(p, n.Defaults)
			if world.View(pod).Fits(&n.Node) != nil {
				continue
			}
			n.Place(pod)
			if k >= len(opened) && !slices.Contains(out, n.Name) {
				out = append(out, n.Name)
			}
			break
		}
	}
	slices.Sort(out)
	return out
}

// byName sorts copies: placing changes them.
func byName(nodes []*decide.Node) []*decide.Node {
	out := make([]*decide.Node, len(nodes))
	for i, n := range nodes {
		own := *n
		own.Ports, own.Pods = slices.Clone(n.Ports), slices.Clone(n.Pods)
		out[i] = &own
	}
	slices.SortFunc(out, func(a, b *decide.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
