// Package scalertest makes the objects that the tests of the scaler's packages have in common.
package scalertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// Epoch is the time at which tests begin.
func Epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// NodeIn is the Node "c" of instance "i-c", Ready, and closed to pods unless it runs. Of a standby
// one the kubelet has not reported since its stop.
func NodeIn(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "uid-c", CreationTimestamp: metav1.NewTime(Epoch().Add(-time.Hour)),
		Labels:      map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{},
	}}
	n.Spec.ProviderID = "fake:///zone-a/i-c"
	if state != "" {
		n.Annotations[v1alpha1.AnnotationInstanceID] = "i-c"
	}
	if state != "" && state != v1alpha1.StateRunning { // as Stratos leaves it
		n.Labels[v1alpha1.LabelExcludeDisruption], n.Annotations[v1alpha1.AnnotationCordoned] = "true", "true"
		n.Spec.Unschedulable, n.Spec.Taints = true, []corev1.Taint{{Key: v1alpha1.TaintStandby,
			Effect: corev1.TaintEffectNoSchedule}}
	}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"),
		"pods": resource.MustParse("110")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.NewTime(Epoch())}}
	if state == v1alpha1.StateStandby {
		n.Annotations[v1alpha1.AnnotationHeartbeatAtStop] = transition.FormatHeartbeats(n.Status.Conditions)
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// Reporting has the Node's kubelet report Ready since its stop.
func Reporting(n *corev1.Node) {
	n.Status.Conditions[0].Status = corev1.ConditionTrue
	delete(n.Annotations, v1alpha1.AnnotationHeartbeatAtStop)
}

// Annotated sets an annotation of a Node.
func Annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

// MarkedAt sets an annotation of a Node to a time.
func MarkedAt(key string, t time.Time) func(*corev1.Node) {
	return Annotated(key, t.Format(time.RFC3339))
}

// Having marks a Node as one that has pulled the images.
func Having(images ...string) func(*corev1.Node) {
	return Annotated(v1alpha1.AnnotationImagesHash, plan.HashImages(images))
}

// NodePool is the pool "p".
func NodePool(size, least int32, change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p",
		Finalizers: []string{v1alpha1.FinalizerNodePool}}}
	p.Spec.PoolSize, p.Spec.MinStandby = size, least
	p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: "AWSNodeClass", Name: "class"}
	for _, f := range change {
		f(p)
	}
	return p
}
