package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestOnlyTheNodesThatPodsNeedArePromoted: the other warm ones are stopped at the end of their warm-up as always.
func TestOnlyTheNodesThatPodsNeedArePromoted(t *testing.T) {
	named := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Name, n.UID, n.Spec.ProviderID = name, "uid-"+n.UID, "fake:///zone-a/i-"+name }
	}
	warm := func(name string) *corev1.Node {
		return warming(named(name), seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch().Add(-time.Second)), func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
		})
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"one pod":                               {[]*corev1.Pod{waits("a", "1")}, []string{"patch c running", "intent d", "stop i-d"}},
		"two that do not share":                 {[]*corev1.Pod{waits("a", "3"), waits("b", "3")}, []string{"patch c running", "patch d running"}},
		"nobody":                                {nil, []string{"intent c", "stop i-c", "intent d", "stop i-d"}},
		"one that no node of the pool can take": {[]*corev1.Pod{waits("a", "5")}, []string{"intent c", "stop i-c", "intent d", "stop i-d"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, warm("c"), warm("d"), nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Spec.PreWarm.CompletionMode = v1alpha1.ControllerStop }))
			r.sweep(instance(provider.InstanceRunning, minuteOld), instance(provider.InstanceRunning, minuteOld, called("i-d")))
			for _, p := range c.pods {
				r.demand.add(p, "p")
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
