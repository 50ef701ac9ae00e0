package pending

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// BenchmarkWhy is what it takes to say why each of 1000 pods waits, with a pool of 1000 nodes of
// which one has changed since: each operation is all of the pods.
func BenchmarkWhy(b *testing.B) {
	const pods, nodes = 1000, 1000
	for name, test := range map[string]struct {
		state v1alpha1.NodeState
		cpu   string
	}{
		"standby nodes have room": {v1alpha1.StateStandby, "1"},
		"all nodes run":           {v1alpha1.StateRunning, "1"},
		"no node is large enough": {v1alpha1.StateStandby, "5"},
	} {
		b.Run(name, func(b *testing.B) {
			state := fullState(test.state, nodes)
			c := New(&Reconciler{State: state, Demand: NewDemand()})
			waiting := make([]*corev1.Pod, pods)
			for i := range waiting {
				waiting[i] = waitingPod(i, test.cpu)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				state.SetNode(member(test.state, i%nodes))
				for _, p := range waiting {
					if found := c.why(b.Context(), p); found.why == "" {
						b.Fatalf("%+v", found)
					}
				}
			}
		})
	}
}

func waitingPod(i int, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%04d", i),
		UID: types.UID(fmt.Sprintf("pod-%04d", i))}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

// fullState has a pool at its poolSize, with nodes that are all alike.
func fullState(state v1alpha1.NodeState, nodes int) *cluster.State {
	s := cluster.New(decide.NewClaims(), time.Now)
	pool := scalertest.NodePool(int32(nodes), 1) //nolint:gosec // 1000
	pool.Status.Total = pool.Spec.PoolSize
	s.SetPool(pool)
	for i := range nodes {
		s.SetNode(member(state, i))
	}
	return s
}

func member(state v1alpha1.NodeState, i int) *corev1.Node {
	return scalertest.NodeIn(state, func(n *corev1.Node) {
		n.Name, n.UID = fmt.Sprintf("node-%04d", i), types.UID(fmt.Sprintf("node-%04d", i))
		n.Labels[corev1.LabelHostname] = n.Name
	})
}
