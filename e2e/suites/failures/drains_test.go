package failures

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// attachedVolume: a volume that is never detached keeps the instance from being stopped; once it is
// gone the node stops.
func attachedVolume(t *testing.T, r *framework.Rig) {
	pool(t, r, "volumes", "m5.xlarge", 1, emptiesAtOnce, drainsBriefly)
	node := assert.OnlyNode(t, r, "volumes")
	pod := podOn("volumes-1", "volumes")
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
	volume := "pv-of-nobody"
	left := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "left-behind"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: node.Name,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	assert.Create(t, r, left)
	nodes := assert.PoolNodes(t, r, "volumes")
	assert.Remove(t, r, pod)
	awaitWords(t, r, node, v1alpha1.ReasonDrainFailed, "held up by volume attachment left-behind")
	if calls := assert.CallsAbout(t, r, fake.OpStop, nodes); len(calls) != 0 {
		t.Errorf("the instance was stopped with a volume attached: %v", calls)
	}
	assert.Remove(t, r, left)
	awaitStandby(t, r, "volumes", 1)
}

// disruptionBudget: a drain for a replacement that a budget blocks goes back to running, with the
// pod untouched.
func disruptionBudget(t *testing.T, r *framework.Rig) {
	pool(t, r, "budget", "m6i.xlarge", 1, drainsBriefly)
	pod := podOn("budget-1", "budget")
	pod.Labels = map[string]string{"app": "guarded"}
	none := intstr.FromInt32(0)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "guarded"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	assert.Create(t, r, budget, pod)
	name := assert.AwaitBound(t, r, pod)[0]
	assert.AwaitRunning(t, r, pod)
	nodes := assert.PoolNodes(t, r, "budget")
	// As a replacement for drift begins.
	change(t, r, name, func(n *corev1.Node) {
		n.Labels[v1alpha1.LabelState] = string(v1alpha1.StateTerminating)
		n.Annotations[v1alpha1.AnnotationStopReason] = string(v1alpha1.StopDrift)
		n.Annotations[v1alpha1.AnnotationStoppingSince] = time.Now().UTC().Format(time.RFC3339Nano)
		n.Annotations[v1alpha1.AnnotationCordoned] = "true"
		n.Spec.Unschedulable = true
	})
	awaitWords(t, r, nodes[name], v1alpha1.ReasonDrainFailed, "cannot be evicted now")
	n := assert.AwaitNode(t, r, name, "running again", assert.InState(v1alpha1.StateRunning))
	if n.Spec.Unschedulable {
		t.Error("the node runs and is cordoned")
	}
	awaitWords(t, r, nodes[name], v1alpha1.ReasonDrainFailed, "back to running; held up by pod default/budget-1")
	if p := assert.PodNow(t, r, pod); p.DeletionTimestamp != nil || p.Spec.NodeName != name {
		t.Errorf("the pod was disturbed: deleted at %v, on %q", p.DeletionTimestamp, p.Spec.NodeName)
	}
	for _, op := range []fake.Op{fake.OpStop, fake.OpTerminate} {
		if calls := assert.CallsAbout(t, r, op, nodes); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	}
}
