package node

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// bindTime is how long the pods for which a node was promoted may take until they are seen on it.
// Later they are no longer expected there: their scheduler knows a reason that we do not check.
const bindTime = 10 * time.Second

// wanted reports whether pending pods need this very node, which is warming up: of a pool's warm
// nodes as many are promoted as the pods need.
func wanted(r *raw, now time.Time) bool {
	if len(r.pending) == 0 {
		return false
	}
	var opened, warm []*decide.Node
	for _, p := range r.poolNodes {
		o := observeNode(p.node, r.template())
		switch lately := openedLately(o, now); {
		case lately:
			opened = append(opened, occupied(r, p))
		case p.node.Name == r.node.Name || promotable(o):
			if is := occupied(r, p); is.NotStartable == "" {
				warm = append(warm, is)
			}
		}
	}
	return slices.Contains(plan.Promote(r.pending, opened, warm), v1alpha1.NodeName(r.node.Name))
}

// openedLately reports whether pods may still be on their way to a node that began to run.
func openedLately(n *lifecycle.Node, now time.Time) bool {
	return n.State == v1alpha1.StateRunning && now.Sub(n.Running) < bindTime
}

// promotable reports whether a node may be promoted, as far as it shows.
func promotable(n *lifecycle.Node) bool {
	return n.State == v1alpha1.StateWarmup && n.Ready && n.NetworkSeen && n.Complete && n.AgentTaint == "" &&
		!n.Warmed.IsZero() && !n.Stop.Stands()
}

// occupied is a node of the pool with what the pods on it take, and those of DaemonSets that come
// when it opens.
func occupied(r *raw, p poolNode) *decide.Node {
	is := decide.NodeOf(p.node, r.pool, r.daemons...)
	is.Used, is.Ports = fit.Resources{}, nil
	sets := map[types.UID]bool{}
	for i := range p.pods {
		pod := &p.pods[i]
		if !fit.Finished(pod) {
			is.Used.Add(fit.Occupied(pod))
			is.Ports, is.Pods = append(is.Ports, fit.HostPorts(pod)...), append(is.Pods, fit.NewPlaced(pod))
			sets[fit.DaemonOf(pod)] = true
		}
	}
	is.Expect(is.Daemons, func(set types.UID) bool { return sets[set] })
	return is
}
