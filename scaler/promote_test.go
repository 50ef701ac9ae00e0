package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestOnlyTheNodesThatPodsNeedArePromoted: the other warm ones are stopped at the end of their
// warm-up as always.
func TestOnlyTheNodesThatPodsNeedArePromoted(t *testing.T) {
	named := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Name, n.UID, n.Spec.ProviderID = name, "uid-"+n.UID, "fake:///zone-a/i-"+name }
	}
	warm := func(name string) *corev1.Node {
		return warming(named(name), seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch().Add(-time.Second)),
			func(n *corev1.Node) {
				n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
			})
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		sets []client.Object
		want []string
	}{
		"one that has no room beside a DaemonSet's pod": {[]*corev1.Pod{waits("a", "3950m")}, []client.Object{agents()},
			[]string{"intent c", "stop i-c", "intent d", "stop i-d"}},
		"one that has": {[]*corev1.Pod{waits("a", "3900m")}, []client.Object{agents()},
			[]string{"patch c running", "intent d", "stop i-d"}},
		"the DaemonSet's pod is there": {[]*corev1.Pod{waits("a", "3900m")},
			[]client.Object{agents(), boundPod("agent", needing("100m"), func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
			})}, []string{"patch c running", "intent d", "stop i-d"}},
		"one pod": {[]*corev1.Pod{waits("a", "1")}, nil,
			[]string{"patch c running", "intent d", "stop i-d"}},
		"two that do not share": {[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, nil,
			[]string{"patch c running", "patch d running"}},
		"nobody": {nil, nil, []string{"intent c", "stop i-c", "intent d", "stop i-d"}},
		"one that no node of the pool can take": {[]*corev1.Pod{waits("a", "5")}, nil,
			[]string{"intent c", "stop i-c", "intent d", "stop i-d"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(c.sets, warm("c"), warm("d"), nodePool(5, 0,
				func(p *v1alpha1.NodePool) { p.Spec.PreWarm.CompletionMode = v1alpha1.ControllerStop }))...)
			r.sweep(instance(provider.InstanceRunning, minuteOld), instance(provider.InstanceRunning, minuteOld, called("i-d")))
			for _, p := range c.pods {
				r.demand.Add(p, "p")
			}
			for _, id := range []v1alpha1.InstanceID{"i-c", "i-d"} {
				if _, err := r.nodes.Reconcile(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			r.want(c.want...)
		})
	}
}
