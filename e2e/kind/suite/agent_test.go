package suite

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestLateNetworkAgent: where the network agent turns Ready 3 s late, `network` is the slowest
// phase of the start.
func TestLateNetworkAgent(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	l.Lives = 2 // the warm-up and one start
	image := l.Push(t, "late/web:1")
	l.Namespace(t, "late")
	l.Create(t, l.Agent("late", "late", 18083))
	l.PlayLives(t, cluster.Network{
		Pool:      cluster.PoolOfOne("late", corev1.Taint{Key: "example.com/network", Effect: corev1.TaintEffectNoSchedule}),
		Namespace: metav1.NamespaceSystem,
		Pods:      client.MatchingLabels{"k8s-app": "late"},
		Workload:  cluster.Workload{Name: "web", Namespace: "late", Pool: "late", Image: image, CPU: podCPU},
		Signal:    cluster.AgentReady,
		Boot:      cluster.TurnReadyLate,
	}, l.Class("late", reserve(t, l)))
	l.NetworkIsSlowest(t, "late")
}
