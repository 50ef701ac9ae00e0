package cni

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// agentNotReady is the taint of Cilium's operator.
const agentNotReady = "node.cilium.io/agent-not-ready"

// TestAWSNode: five lives of a node whose DaemonSet aws-node writes no condition and turns Ready
// late. It is recognised by the folders that it mounts, beside the cluster's own network. Of the
// phases of its starts `network` is the slowest.
func TestAWSNode(t *testing.T) {
	l := cluster.New(t)
	image := l.Push(t, "aws/web:1")
	l.Namespace(t, "aws")
	l.Create(t, l.Agent("aws-node", "aws", 18081))
	l.PlayLives(t, cluster.Network{
		Pool:      cluster.PoolOfOne("aws", corev1.Taint{Key: "example.com/network", Effect: corev1.TaintEffectNoSchedule}),
		Namespace: metav1.NamespaceSystem,
		Pods:      client.MatchingLabels{"k8s-app": "aws-node"},
		Workload:  cluster.Workload{Name: "web", Namespace: "aws", Pool: "aws", Image: image, CPU: "150m"},
		Signal:    cluster.AgentReady,
		Boot:      cluster.TurnReadyLate,
	}, l.Class("aws", reserve(t, l)))
	l.NetworkIsSlowest(t, "aws")
}

// TestCilium: five lives of a node that the real controller of Cilium's operator taints while the
// agent's pod is not Ready. It writes its condition once in the node's life, and takes its taint
// away while the pod's Ready is still that of the life before: neither opens the node. The pool has
// Cilium's taint as its startup taint, as the README's, and names the agent.
func TestCilium(t *testing.T) {
	l := cluster.New(t)
	image := l.Push(t, "cilium/web:1")
	l.Namespace(t, "cilium")
	l.Create(t, l.Agent("cilium", "cilium", 18082))
	pool := cluster.PoolOfOne("cilium", corev1.Taint{Key: agentNotReady, Effect: corev1.TaintEffectNoSchedule})
	pool.Spec.Template.NetworkAgents = []v1alpha1.NetworkAgent{{Namespace: metav1.NamespaceSystem, Name: "cilium"}}
	l.PlayLives(t, cluster.Network{
		Pool:      pool,
		Namespace: metav1.NamespaceSystem,
		Pods:      client.MatchingLabels{"k8s-app": "cilium"},
		Workload:  cluster.Workload{Name: "web", Namespace: "cilium", Pool: "cilium", Image: image, CPU: "150m"},
		Signal:    cluster.AgentReady,

		OthersRemoveTaints: true,
		Boot:               cluster.TurnReadyLate,
	}, l.Class("cilium", reserve(t, l)))
	marked(t, l)
}

// reserve leaves about 250m of cpu.
func reserve(t *testing.T, l *cluster.Cluster) string {
	t.Helper()
	return fmt.Sprintf("%dm", l.MachineCPU(t)-250)
}

// marked: the condition is from Cilium's operator, written once.
func marked(t *testing.T, l *cluster.Cluster) {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := l.Client.List(t.Context(), nodes, client.MatchingLabels{v1alpha1.LabelPool: "cilium"}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Reason == "CiliumIsUp" }) {
			t.Errorf("node %s has no condition of Cilium's operator: %v", n.Name, n.Status.Conditions)
		}
	}
}
