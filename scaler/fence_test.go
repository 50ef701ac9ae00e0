package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/node"
)

// evicted was asked to end by the taint eviction, its grace ended at that time, and no kubelet ends
// it.
func evicted(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Finalizers, p.DeletionTimestamp = []string{"test/kept"}, &metav1.Time{Time: at}
		p.DeletionGracePeriodSeconds = new(int64(at.Sub(epoch()).Seconds()))
	}
}

// TestADeadMachineIsFenced after scaleUp.readyTimeout without a report, and not under a pod that
// was not asked to end. How long nothing was reported, and how long pods are being deleted, is
// measured by our clock alone: what is written is of a clock that is an hour ahead, or behind.
func TestADeadMachineIsFenced(t *testing.T) {
	for name, c := range map[string]struct {
		pods   []*corev1.Pod
		again  bool // the kubelet reports once more in between
		fenced bool
	}{
		"its pods outstayed their grace": {pods: []*corev1.Pod{boundPod("a", evicted(epoch())),
			boundPod("b", evicted(epoch()))}, fenced: true},
		"a pod that was not asked to end": {pods: []*corev1.Pod{boundPod("a", evicted(epoch())), boundPod("b")}},
		"a pod within its grace":          {pods: []*corev1.Pod{boundPod("a", evicted(epoch().Add(time.Hour)))}},
		"it reports once more":            {pods: []*corev1.Pod{boundPod("a", evicted(epoch()))}, again: true},
	} {
		for _, skew := range []time.Duration{-time.Hour, time.Hour} {
			t.Run(name+", clock off by "+skew.String(), func(t *testing.T) {
				n := nodeIn(v1alpha1.StateRunning, readyIs(corev1.ConditionUnknown),
					markedAt(v1alpha1.AnnotationRunningSince, epoch()))
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(epoch().Add(skew))
				objects := []client.Object{n, nodePool(5, 0)}
				for _, p := range c.pods {
					p = p.DeepCopy()
					if p.DeletionTimestamp != nil {
						p.DeletionTimestamp.Time = p.DeletionTimestamp.Add(skew)
					}
					objects = append(objects, p)
				}
				r := newRig(t, objects...)
				r.nodes.Steps = node.NewStepClock(func() time.Duration { return r.now.Sub(epoch()) })
				look := func(after time.Duration) {
					r.now = epoch().Add(after)
					r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "running")))
					r.reconcile()
				}
				look(0)
				look(4 * time.Minute)
				if c.again {
					n := r.node("c")
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(epoch().Add(skew + time.Minute))
					if err := r.api.Status().Update(t.Context(), n); err != nil {
						t.Fatal(err)
					}
				}
				look(5*time.Minute - time.Second)
				r.want()
				look(5*time.Minute + time.Second)
				if !c.fenced {
					r.want()
					return
				}
				r.want("intent c", "force-stop i-c")
				if n := r.node("c"); n.Labels[v1alpha1.LabelState] != "stopping" || !n.Spec.Unschedulable {
					t.Errorf("state %s, cordoned: %t", n.Labels[v1alpha1.LabelState], n.Spec.Unschedulable)
				}
				if said := r.said(); !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "NodeFenced") }) {
					t.Errorf("events %q", said)
				}
			})
		}
	}
}
