package assert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// PoolNodes returns the pool's Nodes by name.
func PoolNodes(t *testing.T, r *framework.Rig, pool string) map[string]*corev1.Node {
	t.Helper()
	nodes, err := readNodes(t.Context(), r, pool)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func readNodes(ctx context.Context, r *framework.Rig, pool string) (map[string]*corev1.Node, error) {
	list := &corev1.NodeList{}
	err := r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: pool})
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, err
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
	return AwaitObject(t, r, Node(name), what, so)
}

// AwaitState waits until the Node has the state, and returns it.
func AwaitState(t *testing.T, r *framework.Rig, name string, state v1alpha1.NodeState) *corev1.Node {
	t.Helper()
	return AwaitNode(t, r, name, string(state), InState(state))
}

// AwaitNodes waits until the pool's Nodes are so, and returns them.
func AwaitNodes(t *testing.T, r *framework.Rig, pool, what string,
	so func(map[string]*corev1.Node) bool) map[string]*corev1.Node {
	t.Helper()
	var nodes map[string]*corev1.Node
	Await(t, "nodes of pool "+pool+": "+what, func(ctx context.Context) (bool, error) {
		var err error
		if nodes, err = readNodes(ctx, r, pool); err == nil && so(nodes) {
			return true, nil
		}
		var are []string
		for name, n := range nodes {
			are = append(are, fmt.Sprintf("%s with labels %v: %s", name, n.Labels, seen(n)))
		}
		return false, errors.Join(err, errors.New(strings.Join(are, "\n")))
	})
	return nodes
}

// In counts the Nodes in the state.
func In(nodes map[string]*corev1.Node, state v1alpha1.NodeState) int {
	return len(slices.DeleteFunc(slices.Collect(maps.Values(nodes)), func(n *corev1.Node) bool {
		return StateOf(n) != state
	}))
}

// InState is a condition for AwaitNode.
func InState(s v1alpha1.NodeState) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return StateOf(n) == s }
}

// NodeCondition is the Node's condition of the kind, empty where it has none.
func NodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// IsReady reports whether the kubelet says that the node is Ready.
func IsReady(n *corev1.Node) bool {
	return NodeCondition(n, corev1.NodeReady).Status == corev1.ConditionTrue
}

// PodIsReady reports whether the pod's condition says so.
func PodIsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// HasTaint reports whether the Node has a taint with the key.
func HasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// InstanceOf is the instance that the Node's provider id names.
func InstanceOf(n *corev1.Node) v1alpha1.InstanceID { return framework.InstanceOf(n) }
