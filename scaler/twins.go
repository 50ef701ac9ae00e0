package scaler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// nodesOf finds the Node of the instance by its providerID, exactly, and other Nodes that carry the
// same one: a kubelet may register under another name than at its last boot. All are empty if there
// is none.
func (c *nodes) nodesOf(ctx context.Context, providerID string) (*corev1.Node, []corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := c.reader.List(ctx, list, client.MatchingFields{indexProviderID: providerID}); err != nil ||
		len(list.Items) == 0 {
		return nil, nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return current(&a, &b) })
	return &list.Items[0], list.Items[1:], nil
}

// byProviderID are the Nodes by their providerID. Of several with one providerID it is the one that
// reports.
func byProviderID(nodes []corev1.Node) map[string]*corev1.Node {
	byID := map[string]*corev1.Node{}
	for i := range nodes {
		n := &nodes[i]
		if other := byID[n.Spec.ProviderID]; other == nil || current(n, other) < 0 {
			byID[n.Spec.ProviderID] = n
		}
	}
	return byID
}

// current orders Nodes of one instance: first those whose kubelet reports, then the one with the
// newest report. Both stamps are of the clock of one machine.
func current(a, b *corev1.Node) int {
	if reports(a) != reports(b) {
		if reports(a) {
			return -1
		}
		return 1
	}
	if c := lastReport(b).Compare(lastReport(a).Time); c != 0 {
		return c
	}
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// lastReport is the time of the last report of the Node's kubelet.
func lastReport(n *corev1.Node) (at metav1.Time) {
	if ready := transition.Condition(n, corev1.NodeReady); ready != nil {
		return ready.LastHeartbeatTime
	}
	return at
}

// reports reports whether the Node's Ready is True or False: its kubelet reports, or did so a
// moment ago.
func reports(n *corev1.Node) bool {
	ready := transition.Condition(n, corev1.NodeReady)
	return ready != nil && ready.Status != corev1.ConditionUnknown
}

// outlived reports whether no kubelet reports under the twin's name any more. That of a running
// node may have pods, and gets the time until its Ready turns Unknown. Of any other a later report
// under the present name is proof enough: to wait would have the two Nodes start and stop one
// machine in turn.
func outlived(twin, present *corev1.Node) bool {
	if !reports(twin) {
		return true
	}
	running := v1alpha1.NodeState(twin.Labels[v1alpha1.LabelState]) == v1alpha1.StateRunning
	last, latest := lastReport(twin), lastReport(present)
	return !running && last.Before(&latest)
}

// deleteTwins deletes the Nodes under which the instance's kubelet does not report any more, once
// it is Ready under its present name.
func (c *nodes) deleteTwins(ctx context.Context, g gathered) error {
	if len(g.twins) == 0 || g.Node == nil || !g.Node.Ready {
		return nil
	}
	for i := range g.twins {
		twin := &g.twins[i]
		if !outlived(twin, g.node) {
			continue
		}
		uid := twin.UID // not a Node of the same name that registered since
		if err := c.client.Delete(ctx, twin, client.Preconditions{UID: &uid}); err != nil {
			return client.IgnoreNotFound(err)
		}
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonOrphanRemoved,
			fmt.Sprintf("Node %s deleted: the kubelet of instance %s registers as %s now", twin.Name, g.instance.ID,
				g.node.Name))
	}
	return nil
}
