package failures

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// agentTooMuch is more cpu than any node here has.
func agentTooMuch() *resource.Quantity { return resource.NewQuantity(500, resource.DecimalSI) }

// noSilentMetric has a pod wait, for the gauges that stand at zero again when nothing waits, and
// looks at everything in docs/metrics.md.
func noSilentMetric(t *testing.T, r *framework.Rig) {
	pool(t, r, "measured", "t3.xlarge", 2)
	assert.HoldStarts(t, r, "t3.xlarge", 0)
	pod := podOn("measured-1", "measured")
	assert.Create(t, r, pod)
	schedulerError(t, r)
	nominated(t, r)
	foreseen(t, r)
	endsAtOnce(t, r)
	paused := framework.Pool("paused", 1)
	metav1.SetMetaDataAnnotation(&paused.ObjectMeta, v1alpha1.AnnotationPaused, "true")
	assert.Create(t, r, paused)
	names := documented(t)
	assert.Eventually(t, "metrics of docs/metrics.md that are silent", func(ctx context.Context) ([]string, error) {
		moved, err := assert.MovedMetrics(ctx, r.Metrics)
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return moved[name] }), err
	}, func(silent []string) bool { return len(silent) == 0 })
}

// endsAtOnce makes a pool whose instances the cloud terminates at once, so that a warm-up has
// failed.
func endsAtOnce(t *testing.T, r *framework.Rig) {
	t.Helper()
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultStartFallsBack, Op: fake.OpLaunch, Type: "m6i.4xlarge",
		Reason: "Client.InternalError"})
	assert.Create(t, r, framework.Class("doomed", "m6i.4xlarge"), framework.Pool("doomed", 1))
}

// schedulerError plays a scheduler that fails over a pod, because none here does.
func schedulerError(t *testing.T, r *framework.Rig) {
	t.Helper()
	pod := framework.Pod("failed-over", "cpu", "1")
	pod.Spec.SchedulerName = "failing-scheduler"
	schedulerSays(t, r, pod, corev1.PodReasonSchedulerError)
}

// nominated plays a scheduler without the extender, whose pods are nominated: one that keeps
// nominations while it fails, so that no node has to open.
func nominated(t *testing.T, r *framework.Rig) {
	t.Helper()
	assert.Create(t, r, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "patient"},
		PreemptionPolicy: new(corev1.PreemptNever)})
	pod := podOn("nominated", "measured")
	pod.Spec.SchedulerName, pod.Spec.PriorityClassName = "plain-scheduler", "patient"
	schedulerSays(t, r, pod, corev1.PodReasonUnschedulable)
}

// foreseen makes a ReplicaSet of which kube-controller-manager creates the pods over seconds, so
// that some are to come when the first is called unschedulable.
func foreseen(t *testing.T, r *framework.Rig) {
	t.Helper()
	pod := podOn("foreseen", "measured")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	labels := map[string]string{"app": "foreseen"}
	assert.Create(t, r, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "foreseen"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(200)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	})
}

// schedulerSays makes the pod and plays what its scheduler says of it.
func schedulerSays(t *testing.T, r *framework.Rig, pod *corev1.Pod, reason string) {
	t.Helper()
	assert.Create(t, r, pod)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "played",
		LastTransitionTime: metav1.Now(),
	}}
	if err := r.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

var documentedName = regexp.MustCompile("(?m)^\\| `(stratos_[a-z_]+)` \\|")

// movedElsewhere are the metrics that do not move here, with the tests that see them move.
func movedElsewhere() map[string]string {
	return map[string]string{
		"stratos_cloud_provider_batch_size":                        "TestMainJobOnEC2: here one is taken at a time",
		"stratos_nodepool_overdue_nodes":                           "TestOverdueNodes: it takes 10 minutes",
		"stratos_nodepool_startup_taints_forced_total":             "TestStartupTaintsThatAreForcedAreReported",
		"stratos_serving_certificate_expiration_timestamp_seconds": "TestEndOfTheCertificate: none is served here",
	}
}

func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range documentedName.FindAllStringSubmatch(string(text), -1) {
		if _, elsewhere := movedElsewhere()[m[1]]; !elsewhere {
			names = append(names, m[1])
		}
	}
	if len(names) < 20 {
		t.Fatalf("docs/metrics.md names %d metrics, want at least the 20 that there were once", len(names))
	}
	return names
}
