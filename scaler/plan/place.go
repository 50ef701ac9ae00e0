package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// NodesFor is how many empty nodes like the pattern the pods need. The pods are placed one by one as claims are: on the
// first node with room, else on a new one. Pods that the pattern refuses when it is empty need none: it would not help.
func NodesFor(pods []*corev1.Pod, pattern *claim.Node) int32 {
	world := &fit.World{}
	for _, p := range pods {
		pod := fit.NewPod(p, pattern.Defaults)
		if fits(pod, world) {
			continue
		}
		fresh := pattern.Node
		fresh.Name = v1alpha1.NodeName(fmt.Sprintf("%s+%d", pattern.Name, len(world.Nodes)+1))
		fresh.Used, fresh.Ports, fresh.Pods = fit.Resources{}, nil, nil
		fresh.Labels = withHostname(pattern.Labels, string(fresh.Name))
		if fit.Fits(pod, &fresh, world) == nil {
			fresh.Place(pod)
			world.Nodes = append(world.Nodes, &fresh)
		}
	}
	return int32(len(world.Nodes)) //nolint:gosec // at most one per pod
}

func fits(pod *fit.Pod, world *fit.World) bool {
	view := world.View(pod)
	for _, n := range world.Nodes {
		if view.Fits(n) == nil {
			n.Place(pod)
			return true
		}
	}
	return false
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
