package scaler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func waits(name, cpu string) *corev1.Pod {
	return boundPod(name, needing(cpu), func(p *corev1.Pod) { p.Spec.NodeName = "" })
}

func TestDemandIsByPodAndPool(t *testing.T) {
	d := newDemand()
	again := waits("a", "1")
	again.UID = "another"
	for i, step := range []struct {
		pod  *corev1.Pod
		pool v1alpha1.PoolName
		news bool
	}{
		{waits("b", "1"), "p", true}, {waits("a", "1"), "p", true}, {waits("a", "1"), "p", false},
		{waits("a", "1"), "q", true}, {again, "q", true}, {again, "p", true},
	} {
		if got := d.add(step.pod, step.pool); got != step.news {
			t.Errorf("step %d: news %v, want %v", i, got, step.news)
		}
	}
	var names []string
	for _, p := range d.of("p") {
		names = append(names, p.Name)
	}
	if len(names) != 2 || names[0] != "a" || names[1] != "b" || len(d.of("q")) != 0 {
		t.Errorf("p wants %v, q %d; want a and b, none", names, len(d.of("q")))
	}
	key := types.NamespacedName{Namespace: "default", Name: "a"}
	if pool, was := d.remove(key); !was || pool != "p" {
		t.Errorf("removed from %q, %v", pool, was)
	}
	if _, was := d.remove(key); was {
		t.Error("removed twice")
	}
}

func TestDemandInNodes(t *testing.T) {
	pool := nodePool(9, 0)
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		nodes []corev1.Node
		want  int32
	}{
		"nobody waits":                           {nil, []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, 0},
		"placed on nodes like those of the pool": {[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, 2},
		"while there is none to go by: one":      {[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, nil, 1},
		"one that has said nothing yet is none to go by": {
			[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, []corev1.Node{*nodeIn("", func(n *corev1.Node) { n.Status.Allocatable = nil })}, 1,
		},
		"nor is another pool's": {
			[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, []corev1.Node{*nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) { n.Labels[v1alpha1.LabelPool] = "q" })}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDemand()
			for _, p := range c.pods {
				d.add(p, "p")
			}
			if got := d.nodes(pool, c.nodes); got != c.want {
				t.Errorf("%d nodes, want %d", got, c.want)
			}
		})
	}
}

// A pod that no standby node can serve has one launched, and no second one once the first is on its way; when the pod is
// served the demand ends.
func TestAWaitingPodHasAnInstanceLaunched(t *testing.T) {
	r := newRig(t, nodePool(2, 0, counting(1)), nodeIn(v1alpha1.StateRunning), unschedulable(needing("1")))
	r.sweep(instance(provider.InstanceRunning))
	r.now = epoch().Add(explainAfter)
	c := r.looksAfter()
	r.look(c)
	r.look(c)
	r.want("pool p")
	r.reconcilePool()
	r.want("patch c running", `reserve {"next":1,"pending":[0]}`, "launch 0")
	r.reconcilePool()
	r.want()
	r.promise("a", "c")
	r.look(c)
	r.want("pool p")
	if len(r.demand.of("p")) != 0 {
		t.Error("the demand outlives the pod's wait")
	}
}
