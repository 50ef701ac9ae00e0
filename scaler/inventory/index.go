package inventory

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/start"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// Names of the cache's field indexes.
const (
	IndexProviderID = "spec.providerID"
	IndexPodNode    = "stratos.pod-node"
	IndexAttachment = "stratos.attachment-node"
	IndexManaged    = "stratos.managed-instance"
)

// ManagedInstance is the instance of a Node that names a pool and shows a state, "" of any other.
// The pool's label alone may be another program's doing, for example a NodePool of Karpenter's that
// names it, and of such a node our cloud knows nothing: it would pass for one whose instance is
// gone, and be deleted.
func ManagedInstance(n *corev1.Node) v1alpha1.InstanceID {
	if _, ok := n.Labels[v1alpha1.LabelPool]; !ok {
		return ""
	}
	if _, ok := n.Labels[v1alpha1.LabelState]; !ok {
		return ""
	}
	return InstanceOf(n)
}

// NodeOfPod is the node that the pod is bound to or on its way to.
func NodeOfPod(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	return string(decide.NominatedNode(p))
}

// InstanceOf is the instance that the Node names; empty where it names none.
func InstanceOf(n *corev1.Node) v1alpha1.InstanceID { return start.InstanceOf(n) }

// AddIndexes adds the indexes to the manager's cache.
func AddIndexes(ctx context.Context, mgr manager.Manager) error {
	indexer := mgr.GetFieldIndexer()
	return errors.Join(
		indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, IndexAttachment, func(o client.Object) []string {
			if a, ok := o.(*storagev1.VolumeAttachment); ok {
				return []string{a.Spec.NodeName}
			}
			return nil
		}),
		indexer.IndexField(ctx, &corev1.Node{}, IndexProviderID, func(o client.Object) []string {
			if n, ok := o.(*corev1.Node); ok && n.Spec.ProviderID != "" {
				return []string{n.Spec.ProviderID}
			}
			return nil
		}),
		indexer.IndexField(ctx, &corev1.Node{}, IndexManaged, func(o client.Object) []string {
			if n, ok := o.(*corev1.Node); ok && ManagedInstance(n) != "" {
				return []string{string(ManagedInstance(n))}
			}
			return nil
		}),
		indexer.IndexField(ctx, &corev1.Pod{}, IndexPodNode, func(o client.Object) []string {
			if p, ok := o.(*corev1.Pod); ok && NodeOfPod(p) != "" {
				return []string{NodeOfPod(p)}
			}
			return nil
		}),
	)
}

// ByProviderID are the Nodes by their providerID. Of several with one providerID it is the one that
// reports.
func ByProviderID(nodes []corev1.Node) map[string]*corev1.Node {
	byID := map[string]*corev1.Node{}
	for i := range nodes {
		n := &nodes[i]
		if other := byID[n.Spec.ProviderID]; other == nil || Current(n, other) < 0 {
			byID[n.Spec.ProviderID] = n
		}
	}
	return byID
}

// Current orders Nodes of one instance: first those whose kubelet reports, then the one with the
// newest report. Both stamps are of the clock of one machine.
func Current(a, b *corev1.Node) int {
	if Reports(a) != Reports(b) {
		if Reports(a) {
			return -1
		}
		return 1
	}
	if c := LastReport(b).Compare(LastReport(a).Time); c != 0 {
		return c
	}
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// LastReport is the time of the last report of the Node's kubelet.
func LastReport(n *corev1.Node) (at metav1.Time) {
	if ready := transition.Condition(n, corev1.NodeReady); ready != nil {
		return ready.LastHeartbeatTime
	}
	return at
}

// Reports reports whether the Node's Ready is True or False: its kubelet reports, or did so a
// moment ago.
func Reports(n *corev1.Node) bool {
	ready := transition.Condition(n, corev1.NodeReady)
	return ready != nil && ready.Status != corev1.ConditionUnknown
}
