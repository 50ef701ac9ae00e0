package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func ofDaemonSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent",
		Controller: new(true)}}
}

// goingAway is being deleted, and a finalizer holds it.
func goingAway(p *corev1.Pod) {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: epoch().Add(time.Minute)}, []string{"example.com/held"}
}

// The kubelet that would end them is off, and the DaemonSet controller would count them as
// unavailable until the next start.
func TestPodsThatLeaveAStoppedNodeAreDeletedForGood(t *testing.T) {
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	pods := []*corev1.Pod{
		boundPod("agent", ofDaemonSet, goingAway), boundPod("stays", ofDaemonSet), boundPod("static", static, goingAway),
	}
	for name, c := range map[string]struct {
		state v1alpha1.NodeState
		cloud provider.InstanceState
		want  []string
	}{
		"on a stopped node":      {v1alpha1.StateStandby, provider.InstanceStopped, []string{"delete-now agent"}},
		"not while it goes down": {v1alpha1.StateStandby, provider.InstanceStopping, []string{"tag i-c standby"}},
		"not where it runs":      {v1alpha1.StateStarting, provider.InstanceRunning, []string{"patch c running"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeIn(c.state, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-time.Second)))
			r := newRig(t, n, nodePool(5, 0), pods[0].DeepCopy(), pods[1].DeepCopy(), pods[2].DeepCopy())
			r.sweep(instance(c.cloud))
			r.reconcile()
			r.want(c.want...)
		})
	}
}
