package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// renamed is the Node "c2" under which the kubelet of instance "i-c" registered anew.
func renamed(status corev1.ConditionStatus) *corev1.Node {
	n := nodeIn("")
	n.Name, n.UID, n.Labels = "c2", "uid-c2", map[string]string{}
	n.CreationTimestamp = metav1.NewTime(epoch().Add(-time.Minute))
	n.Status.Conditions[0].Status = status
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(epoch().Add(time.Second))
	return n
}

// TestTwoNodesOfOneInstance: the one that reports is ours, and the other goes once that is Ready.
func TestTwoNodesOfOneInstance(t *testing.T) {
	silent := readyIs(corev1.ConditionUnknown)
	for name, c := range map[string]struct {
		old, new   *corev1.Node
		adopted    bool
		oldDeleted bool
	}{
		"started under another name": {
			nodeIn(v1alpha1.StateStarting, silent, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())),
			renamed(corev1.ConditionTrue), true, true,
		},
		"and not Ready yet": {
			nodeIn(v1alpha1.StateStarting, silent, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())),
			renamed(corev1.ConditionFalse), true, false,
		},
		"started under another name, and the last life's report stands": {
			nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())), renamed(corev1.ConditionTrue),
			true, true,
		},
		"restarted while it ran, a moment ago": {nodeIn(v1alpha1.StateRunning), renamed(corev1.ConditionTrue), true, false},
		"restarted while it ran": {nodeIn(v1alpha1.StateRunning, silent), renamed(corev1.ConditionTrue), true,
			true},
		"silent under both names": {nodeIn(v1alpha1.StateStandby, silent), renamed(corev1.ConditionUnknown),
			true, false},
		"another name, and back": {
			nodeIn(v1alpha1.StateRunning), renamed(corev1.ConditionUnknown), false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.old, c.new, nodePool(5, 0))
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "warmup")))
			for range 3 {
				r.now = r.now.Add(time.Second)
				r.stepOf("i-c")
			}
			switch {
			case !c.adopted && r.hasNode("c2"):
				t.Error("the silent Node of the other name stays")
			case !c.adopted:
			case r.node("c2").Labels[v1alpha1.LabelState] != "warmup" || !r.node("c2").Spec.Unschedulable:
				t.Errorf("the Node that reports: %v, cordoned %t", r.node("c2").Labels, r.node("c2").Spec.Unschedulable)
			case r.node("c2").Annotations[v1alpha1.AnnotationWarmupStarted] == "":
				t.Error("the Node is in a first warm-up: user data does not run again, and its time is over")
			}
			if r.hasNode("c") == c.oldDeleted {
				t.Errorf("the old Node is there: %t", r.hasNode("c"))
			}
			r.reconcilePool()
			if s := r.pool().Status; s.Total != 1 {
				t.Errorf("status %+v, want one instance", s)
			}
		})
	}
}

// TestAPoolWithTwoNodesOfOneInstanceEnds: no Node is left when it is deleted.
func TestAPoolWithTwoNodesOfOneInstanceEnds(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby, readyIs(corev1.ConditionUnknown)), renamed(corev1.ConditionUnknown),
		nodePool(5, 0))
	if err := r.api.Delete(t.Context(), r.pool()); err != nil {
		t.Fatal(err)
	}
	r.sweep(instance(provider.InstanceStopped))
	for range 4 {
		r.stepOf("i-c")
	}
	r.sweep(instance(provider.InstanceTerminated))
	r.known["i-c"] = instance(provider.InstanceTerminated)
	for range 3 {
		r.stepOf("i-c")
	}
	if r.hasNode("c") || r.hasNode("c2") {
		t.Errorf("Nodes left: c %t, c2 %t", r.hasNode("c"), r.hasNode("c2"))
	}
	r.reconcilePool()
}
