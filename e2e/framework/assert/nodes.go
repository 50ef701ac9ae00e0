package assert

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// OnPool confines the pod to the pool's nodes.
func OnPool(pod *corev1.Pod, pool string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	return pod
}

// PoolNodes returns the pool's Nodes by name.
func PoolNodes(t *testing.T, r *framework.Rig, pool string) map[string]*corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

// OnlyNode is the one Node of the pool.
func OnlyNode(t *testing.T, r *framework.Rig, pool string) *corev1.Node {
	t.Helper()
	nodes := PoolNodes(t, r, pool)
	if len(nodes) != 1 {
		t.Fatalf("pool %s has %d nodes, want 1", pool, len(nodes))
	}
	for _, n := range nodes {
		return n
	}
	return nil
}

// StateOf is the state that the Node says.
func StateOf(n *corev1.Node) v1alpha1.NodeState {
	return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
}

// AwaitNode waits until the Node is so, and returns it.
func AwaitNode(t *testing.T, r *framework.Rig, name, what string, so func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	Await(t, "node "+name+" "+what, func(ctx context.Context) (bool, error) {
		n := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return false, err
		}
		found = n
		if so(n) {
			return true, nil
		}
		return false, fmt.Errorf("state %s, unschedulable %t, taints %v, annotations %v", StateOf(n), n.Spec.Unschedulable,
			n.Spec.Taints, n.Annotations)
	})
	return found
}

// InState is a condition for AwaitNode.
func InState(s v1alpha1.NodeState) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return StateOf(n) == s }
}

// IsReady reports whether the kubelet says that the node is Ready.
func IsReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// InstanceOf is the instance that the Node's provider id names.
func InstanceOf(n *corev1.Node) v1alpha1.InstanceID {
	return v1alpha1.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
}
