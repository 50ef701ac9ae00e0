package pending

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
			r := newCachedReader(test.state, nodes)
			c := New(&Reconciler{Reader: r, State: r.state, Demand: NewDemand()})
			waiting := make([]*corev1.Pod, pods)
			for i := range waiting {
				waiting[i] = waitingPod(i, test.cpu)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.touch(i)
				for _, p := range waiting {
					if found, err := c.why(b.Context(), p); err != nil || found.why == "" {
						b.Fatalf("%+v, %v", found, err)
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

// cachedReader lists as the manager's cache does: from memory, and only with a copy of each object
// where that is not turned off.
type cachedReader struct {
	client.Reader
	state *cluster.State
	pool  *v1alpha1.NodePool
	nodes []*corev1.Node
}

func newCachedReader(state v1alpha1.NodeState, nodes int) *cachedReader {
	r := &cachedReader{state: cluster.New(decide.NewClaims(), time.Now),
		pool: scalertest.NodePool(int32(nodes), 1)} //nolint:gosec // 1000
	r.pool.Status.Total = r.pool.Spec.PoolSize
	r.state.SetPool(r.pool)
	for i := range nodes {
		r.nodes = append(r.nodes, scalertest.NodeIn(state, func(n *corev1.Node) {
			n.Name, n.UID, n.ResourceVersion = fmt.Sprintf("node-%04d", i), types.UID(fmt.Sprintf("node-%04d", i)), "1"
			n.Labels[corev1.LabelHostname] = n.Name
		}))
		r.state.SetNode(r.nodes[i])
	}
	return r
}

// touch takes in a change of a node.
func (r *cachedReader) touch(i int) {
	at := i % len(r.nodes)
	n := r.nodes[at].DeepCopy()
	n.ResourceVersion = fmt.Sprint(i + 2)
	r.nodes[at] = n
	r.state.SetNode(n)
}

func (r *cachedReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	var objects []runtime.Object
	switch list.(type) {
	case *v1alpha1.NodePoolList:
		objects = append(objects, r.pool.DeepCopy())
	case *corev1.NodeList:
		for _, n := range r.nodes {
			objects = append(objects, n)
		}
	}
	return apimeta.SetList(list, objects)
}
