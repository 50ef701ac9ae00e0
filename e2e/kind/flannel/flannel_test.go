package flannel

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestFlannel: five lives of a node whose network is the real flannel. Its pod says that it is
// Ready, and it writes NetworkUnavailable=False, reason FlannelIsUp: the node opens after the
// earlier of the two.
func TestFlannel(t *testing.T) {
	l := cluster.New(t)
	image := l.Push(t, "flannel/web:1")
	l.Namespace(t, "flannel")
	l.PlayLives(t, cluster.Network{
		Pool: cluster.PoolOfOne("flannel", corev1.Taint{Key: "example.com/network",
			Effect: corev1.TaintEffectNoSchedule}),
		Namespace: "kube-flannel",
		Pods:      client.MatchingLabels{"app": "flannel"},
		Workload:  cluster.Workload{Name: "web", Namespace: "flannel", Pool: "flannel", Image: image, CPU: "100m"},
		Signal: func(t *testing.T, s *cluster.Story, node string, began int64, last cluster.Last) int64 {
			return cluster.Earlier(cluster.Condition(t, s, node, began, last), cluster.AgentReady(t, s, node, began, last))
		},
	}, l.Class("flannel", reserve(t, l)))
	isFlannel(t, l)
}

// reserve leaves about 400m of cpu for flannel's pod and one of the workload.
func reserve(t *testing.T, l *cluster.Cluster) string {
	t.Helper()
	return fmt.Sprintf("%dm", l.MachineCPU(t)-400)
}

// isFlannel: the condition of each node is flannel's, and flannel is the only network.
func isFlannel(t *testing.T, l *cluster.Cluster) {
	t.Helper()
	nodes, sets := &corev1.NodeList{}, &appsv1.DaemonSetList{}
	for _, list := range []client.ObjectList{nodes, sets} {
		if err := l.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Reason != "FlannelIsUp" {
				t.Errorf("node %s: NetworkUnavailable has reason %s", n.Name, c.Reason)
			}
		}
	}
	for _, set := range sets.Items {
		if set.Name != "kube-flannel-ds" && set.Name != "kube-proxy" {
			t.Errorf("DaemonSet %s runs beside flannel", set.Name)
		}
	}
}
