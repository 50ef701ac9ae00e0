package scaler

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// demand are the pods that wait for an instance to be launched, by the pool that is to launch it.
type demand struct {
	// mu guards pods.
	mu   sync.Mutex
	pods map[podKey]wanted
}

type wanted struct {
	pod  *corev1.Pod
	pool v1alpha1.PoolName
}

func newDemand() *demand { return &demand{pods: map[podKey]wanted{}} }

// add takes a pod in, and reports whether it is new or wants another pool than before.
func (d *demand) add(pod *corev1.Pod, pool v1alpha1.PoolName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	was, known := d.pods[key]
	d.pods[key] = wanted{pod: pod, pool: pool}
	return !known || was.pool != pool || was.pod.UID != pod.UID
}

// poolOf is the pool that is to launch for the pod; empty where none is.
func (d *demand) poolOf(pod *corev1.Pod) v1alpha1.PoolName {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.pods[client.ObjectKeyFromObject(pod)]
	if w.pod == nil || w.pod.UID != pod.UID {
		return ""
	}
	return w.pool
}

// remove forgets a pod, and returns the pool that it wanted.
func (d *demand) remove(pod podKey) (v1alpha1.PoolName, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.pods[pod]
	delete(d.pods, pod)
	return w.pool, ok
}

// of returns the pods that wait for the pool, sorted by name.
func (d *demand) of(pool v1alpha1.PoolName) []*corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*corev1.Pod
	for _, w := range d.pods {
		if w.pool == pool {
			out = append(out, w.pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// nodes is how many nodes the pool's waiting pods need, placed on empty nodes like one that the pool has. While it has
// none to take as a pattern, they are placed on what the class promises, nil where it promises nothing; at least one node is asked for
// then: it will tell.
func (d *demand) nodes(pool *v1alpha1.NodePool, nodes []corev1.Node, promised *corev1.Node) int32 {
	pods := d.of(v1alpha1.PoolName(pool.Name))
	if len(pods) == 0 {
		return 0
	}
	for i := range nodes {
		if nodes[i].Labels[v1alpha1.LabelPool] == pool.Name && len(nodes[i].Status.Allocatable) > 0 {
			return plan.NodesFor(pods, claim.NodeOf(&nodes[i], pool))
		}
	}
	if promised == nil {
		return 1
	}
	// A kubelet keeps some of what is promised for itself, and what zone a node will be in nobody knows: this is never too much.
	return max(1, plan.NodesFor(pods, claim.NodeOf(promised, pool)))
}
