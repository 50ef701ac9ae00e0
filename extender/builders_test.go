package extender

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// newTestView knows the pool "p".
func newTestView(now func() time.Time) (*cluster.State, *decide.Claims) {
	l := decide.NewClaims()
	v := cluster.New(l, now)
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID("uid-p"), Generation: 1}}
	p.Spec.PoolSize = 10
	v.SetPool(p)
	return v, l
}

// poolNode is a Node of pool "p" with 4 cpu; with an empty state it is of no pool.
func poolNode(name string, state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{},
		Annotations: map[string]string{}}}
	if state != "" {
		n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelState] = "p", string(state)
	}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
	for _, f := range change {
		f(n)
	}
	return n
}

// cpuPod asks for one cpu and a host port.
func cpuPod(name, on string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := testPod(name)
	p.Spec.NodeName = on
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080}}
	for _, f := range change {
		f(p)
	}
	return p
}

func onItsWay(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", node }
}

// lookUp returns the named nodes as the extender finds them, without those that the cluster state
// does not know.
func lookUp(v *cluster.State, names ...string) []*decide.Node {
	var found cluster.Candidates
	raw := make([][]byte, len(names))
	for i, name := range names {
		raw[i] = []byte(name)
	}
	v.Lookup(raw, &found)
	return found.Present()
}
