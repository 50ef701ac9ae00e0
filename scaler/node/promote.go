package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
func (c *Reconciler) wanted(ctx context.Context, g *gathered) (bool, error) {
	pods := c.Demand.Of(g.template.Pool)
	if len(pods) == 0 || !promotable(g.Node) {
		return false, nil
	}
	list := &corev1.NodeList{}
	if err := c.Reader.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: string(g.template.Pool)}); err != nil {
		return false, err
	}
	var opened, warm []*decide.Node
	for i := range list.Items {
		n := &list.Items[i]
		o := Observe(n, g.template)
		lately := o.State == v1alpha1.StateRunning && c.Now().Sub(o.Running) < bindTime
		if !lately && n.Name != g.node.Name && !promotable(o) {
			continue
		}
		is, err := c.occupied(ctx, n, g.pool)
		switch {
		case err != nil:
			return false, err
		case lately:
			opened = append(opened, is)
		case is.NotStartable == "":
			warm = append(warm, is)
		}
	}
	return slices.Contains(plan.Promote(pods, opened, warm), v1alpha1.NodeName(g.node.Name)), nil
}

// promotable reports whether a node may be promoted, as far as it shows.
func promotable(n *lifecycle.Node) bool {
	return n.State == v1alpha1.StateWarmup && n.Ready && n.NetworkSeen && n.Complete && n.AgentTaint == "" &&
		!n.Warmed.IsZero() && !n.Stop.Stands()
}

// occupied is the node with what the pods on it take, and those of DaemonSets that come when it
// opens.
func (c *Reconciler) occupied(ctx context.Context, n *corev1.Node, pool *v1alpha1.NodePool) (*decide.Node, error) {
	is := decide.NodeOf(n, pool, c.Daemons()...)
	is.Used, is.Ports = fit.Resources{}, nil
	sets := map[types.UID]bool{}
	pods, err := c.podsOn(ctx, n.Name)
	for i := range pods {
		if !fit.Finished(&pods[i]) {
			is.Used.Add(fit.Occupied(&pods[i]))
			is.Ports, is.Pods = append(is.Ports, fit.HostPorts(&pods[i])...), append(is.Pods, fit.NewPlaced(&pods[i]))
			sets[fit.DaemonOf(&pods[i])] = true
		}
	}
	is.Expect(is.Daemons, func(set types.UID) bool { return sets[set] })
	return is, err
}
