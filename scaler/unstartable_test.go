package scaler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func doNotStart(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationDoNotStart] = "true" }

func cordoned(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationCordoned) }

func tainted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "person", Effect: corev1.TaintEffectNoSchedule})
}

// TestNodesThatAPersonKeepsFromStarting count towards minStandby for preWarm.timeout, and serve no
// pod from the first.
func TestNodesThatAPersonKeepsFromStarting(t *testing.T) {
	for name, c := range map[string]struct {
		keep     func(*corev1.Node)
		size     int32
		least    int32
		pod      bool
		after    time.Duration
		launches int
		ready    string
	}{
		"nobody keeps it": {size: 3, least: 1, after: time.Hour, ready: "True 1 standby, 0 running"},
		"a moment ago": {keep: doNotStart, size: 3, least: 1,
			ready: "True 1 standby, 0 running, 1 of the standby nodes not startable"},
		"do-not-start, for long": {keep: doNotStart, size: 3, least: 1, after: 10 * time.Minute, launches: 1,
			ready: "True 1 of 1 standby, 1 warming up, 1 of the standby nodes not startable"},
		"a cordon, for long": {keep: cordoned, size: 3, least: 1, after: 10 * time.Minute, launches: 1,
			ready: "True 1 of 1 standby, 1 warming up, 1 of the standby nodes not startable"},
		"a taint, for long": {keep: tainted, size: 3, least: 1, after: 10 * time.Minute, launches: 1,
			ready: "True 1 of 1 standby, 1 warming up, 1 of the standby nodes not startable"},
		"the pool is full": {keep: doNotStart, size: 1, least: 1, after: 10 * time.Minute,
			ready: "True 1 standby, 0 running, 1 of the standby nodes not startable"},
		"a pod waits, at once": {keep: doNotStart, size: 3, pod: true, launches: 1,
			ready: "True 1 standby, 0 running, 1 of the standby nodes not startable"},
		"a pod waits, beside the least": {keep: doNotStart, size: 3, least: 1, pod: true, after: 10 * time.Minute,
			launches: 2, ready: "True 1 of 1 standby, 2 warming up, 1 of the standby nodes not startable"},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeIn(v1alpha1.StateStandby, seenUp, annotated(v1alpha1.AnnotationTemplateHash,
				nodePool(1, 1).Spec.Template.Hash()))
			if c.keep != nil {
				c.keep(node)
			}
			objects := []client.Object{node, nodePool(c.size, c.least, counting(1))}
			if c.pod {
				objects = append(objects, unschedulable(needing("1")))
			}
			r := newRig(t, objects...)
			r.class(metav1.ConditionTrue, "")
			r.sweep(instance(provider.InstanceStopped))
			r.reconcilePool()
			r.now = epoch().Add(time.Minute + c.after)
			if c.pod {
				r.look(r.looksAfter())
			}
			r.reconcilePool()
			r.reconcilePool()
			if got := len(r.launches); got != c.launches {
				t.Errorf("%d launches, want %d", got, c.launches)
			}
			ready := meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionReady)
			if got := strings.TrimSpace(string(ready.Status) + " " + ready.Message); got != c.ready {
				t.Errorf("Ready %q, want %q", got, c.ready)
			}
		})
	}
}
