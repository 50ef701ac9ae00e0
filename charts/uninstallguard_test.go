package charts

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestTheUninstallGuard: the Deployment, and so each Service and budget, does not take its pod for
// one of Stratos. Where nothing costs anything, and where it is turned off, there is none.
func TestTheUninstallGuard(t *testing.T) {
	guards := map[string]batchv1.Job{}
	for _, o := range ofKind(t, "Job") {
		job := batchv1.Job{}
		o.decode(t, &job)
		guards[o.set] = job
		if job.Annotations["helm.sh/hook"] != "pre-delete" || job.Spec.Template.Spec.Containers[0].Args[0] != "uninstall-guard" {
			t.Errorf("%s is no guard", o)
		}
	}
	for _, o := range ofKind(t, "Deployment") {
		job, guarded := guards[o.set]
		if guarded == (o.set == "fake" || o.set == "everything-off") {
			t.Errorf("%s: guarded %v", o, guarded)
		}
		selector, err := metav1.LabelSelectorAsSelector(deployment(t, o).Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(labels.Set(job.Spec.Template.Labels)) {
			t.Errorf("%s takes the guard's pod for its own: %v", o, job.Spec.Template.Labels)
		}
	}
}
