package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// shutdownTaint is the cloud controller's mark on Nodes of stopped instances.
const shutdownTaint = "node.cloudprovider.kubernetes.io/shutdown"

// runCloudController is one round of cloud-provider's node life-cycle controller. As the real one
// it looks at the cloud only for Nodes that are not Ready: a Node whose instance has just vanished
// stays until its heartbeat is missed.
func (m *Machines) runCloudController(ctx context.Context) {
	for _, node := range m.ourNodes() {
		if err := m.judgeNode(ctx, node); err != nil && ctx.Err() == nil {
			m.o.Log.V(1).Info("fake cloud controller's call failed, next round retries", "node", node.Name, "error", err.Error())
		}
	}
}

// ourNodes returns the Nodes of this cloud, sorted by name.
func (m *Machines) ourNodes() []*corev1.Node {
	var nodes []*corev1.Node
	for _, object := range m.nodes.GetStore().List() {
		if node, ok := object.(*corev1.Node); ok && strings.HasPrefix(node.Spec.ProviderID, m.power.ProviderPrefix()+"/") {
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return compareStrings(a.Name, b.Name) })
	return nodes
}

func (m *Machines) judgeNode(ctx context.Context, node *corev1.Node) error {
	if readyStatus(node) == corev1.ConditionTrue {
		return m.taint(ctx, node, func(taints []corev1.Taint) []corev1.Taint { return without(taints, shutdownTaint, "") })
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, exists := m.power.Truth(node.Spec.ProviderID)
	switch {
	case !exists || state == provider.InstanceTerminated:
		uid := node.UID
		err := m.o.Client.CoreV1().Nodes().Delete(ctx, node.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	case state == provider.InstanceStopped:
		return m.taint(ctx, node, func(taints []corev1.Taint) []corev1.Taint {
			return with(taints, corev1.Taint{Key: shutdownTaint, Effect: corev1.TaintEffectNoSchedule})
		})
	}
	return nil
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// taint writes the taints that change makes of the Node's, if they differ. The list is replaced as
// a whole, so the patch carries the resource version: a taint that was set meanwhile must
// not be lost.
func (m *Machines) taint(ctx context.Context, node *corev1.Node, change func([]corev1.Taint) []corev1.Taint) error {
	wanted := change(slices.Clone(node.Spec.Taints))
	if slices.EqualFunc(wanted, node.Spec.Taints, func(a, b corev1.Taint) bool {
		return a.MatchTaint(&b) &&
			a.Value == b.Value
	}) {
		return nil
	}
	patch := mustJSON(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": wanted},
	})
	_, err := m.o.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	// A conflict or a Node that has gone: the next event or round sees the newer Node.
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("taint: %w", err)
	}
	return nil
}

// without removes the taints of that key, and of that effect unless it is empty.
func without(taints []corev1.Taint, key string, effect corev1.TaintEffect) []corev1.Taint {
	return slices.DeleteFunc(taints, func(t corev1.Taint) bool {
		return t.Key == key &&
			(effect == "" || t.Effect == effect)
	})
}

// with adds the taint unless one of its key and effect is there.
func with(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		return taints
	}
	return append(taints, taint)
}

// nodeSeen plays the fast half of the node controller: taints with NoSchedule follow conditions at
// once.
func (m *Machines) nodeSeen(o any) {
	node, ok := o.(*corev1.Node)
	if !ok || !strings.HasPrefix(node.Spec.ProviderID, m.power.ProviderPrefix()+"/") {
		return
	}
	if len(scheduleTaints(node)) == 0 && !hasLifecycleTaint(node, corev1.TaintEffectNoSchedule) {
		return
	}
	m.queue.Add(key{node: v1alpha1.NodeName(node.Name)})
}

// syncNodeTaints sets the NoSchedule taints that follow from the Node's conditions and cordon.
func (m *Machines) syncNodeTaints(ctx context.Context, name v1alpha1.NodeName) error {
	node := m.cachedNode(name)
	if node == nil {
		return nil
	}
	return m.taint(ctx, node, func(taints []corev1.Taint) []corev1.Taint {
		wanted := scheduleTaints(node)
		for _, key := range lifecycleTaints() {
			i := slices.IndexFunc(wanted, func(t corev1.Taint) bool { return t.Key == key })
			if i < 0 {
				taints = without(taints, key, corev1.TaintEffectNoSchedule)
				continue
			}
			taints = with(taints, wanted[i])
		}
		return taints
	})
}

// lifecycleTaints are the keys that the node controller owns with NoSchedule.
func lifecycleTaints() []string {
	return []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable,
		corev1.TaintNodeNetworkUnavailable,
	}
}

func hasLifecycleTaint(node *corev1.Node, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == effect && slices.Contains(lifecycleTaints(), t.Key)
	})
}

// scheduleTaints returns the NoSchedule taints that the node controller wants.
func scheduleTaints(node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	add := func(key string) {
		taints = append(taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	switch readyStatus(node) {
	case corev1.ConditionFalse:
		add(corev1.TaintNodeNotReady)
	case corev1.ConditionUnknown:
		add(corev1.TaintNodeUnreachable)
	case corev1.ConditionTrue:
	}
	if node.Spec.Unschedulable {
		add(corev1.TaintNodeUnschedulable)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue {
			add(corev1.TaintNodeNetworkUnavailable)
		}
	}
	return taints
}

// runNodeController is one round of the slow half: missed heartbeats, and taints with NoExecute.
// Evictions that follow from NoExecute are not played.
func (m *Machines) runNodeController(ctx context.Context) {
	for _, node := range m.ourNodes() {
		if err := m.watchHeartbeat(ctx, node); err != nil && ctx.Err() == nil {
			m.o.Log.V(1).Info("fake node controller's call failed, next round retries", "node", node.Name, "error", err.Error())
		}
	}
}

func (m *Machines) watchHeartbeat(ctx context.Context, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if m.missed(node) && readyStatus(node) != corev1.ConditionUnknown {
		return m.markUnknown(ctx, node)
	}
	return m.taint(ctx, node, func(taints []corev1.Taint) []corev1.Taint {
		taints = without(taints, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
		taints = without(taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
		now := metav1.Now()
		switch readyStatus(node) {
		case corev1.ConditionFalse:
			taints = append(taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute,
				TimeAdded: &now})
		case corev1.ConditionUnknown:
			taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute,
				TimeAdded: &now})
		case corev1.ConditionTrue:
		}
		return taints
	})
}

// missed reports whether the machine of the Node gave no sign of life for the grace period. A Node
// without a machine of ours has none that could.
func (m *Machines) missed(node *corev1.Node) bool {
	mach := m.onNode(v1alpha1.NodeName(node.Name))
	if mach == nil {
		return true
	}
	return time.Since(mach.signed()) > m.o.GracePeriod
}

// markUnknown does to the kubelet's conditions what the node controller does; heartbeats stay.
func (m *Machines) markUnknown(ctx context.Context, node *corev1.Node) error {
	now := metav1.Now()
	var conditions []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		c := corev1.NodeCondition{Type: kind}
		for _, old := range node.Status.Conditions {
			if old.Type == kind {
				c = old
			}
		}
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
		c.LastTransitionTime = now
		conditions = append(conditions, c)
	}
	patch := mustJSON(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	_, err := m.o.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
