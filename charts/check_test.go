package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestWhatHelmTestRuns: stratos check as Stratos, in a pod that no Service and no budget takes for
// one of Stratos. Its permissions are hooks too, and go when it has succeeded.
func TestWhatHelmTestRuns(t *testing.T) {
	pods := map[string]corev1.Pod{}
	for _, o := range ofKind(t, "Pod") {
		pod := corev1.Pod{}
		o.decode(t, &pod)
		pods[o.set] = pod
		if pod.Annotations["helm.sh/hook"] != "test" || pod.Spec.Containers[0].Args[0] != "check" {
			t.Errorf("%s is no test", o)
		}
	}
	roles := map[string]int{}
	count := func(o object, annotations map[string]string) {
		if annotations["helm.sh/hook"] == "" {
			return
		}
		roles[o.set]++
		if annotations["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
			t.Errorf("%s outlives the test", o)
		}
	}
	for _, o := range ofKind(t, "ClusterRole") {
		role := rbacv1.ClusterRole{}
		o.decode(t, &role)
		count(o, role.Annotations)
	}
	for _, o := range ofKind(t, "ClusterRoleBinding") {
		binding := rbacv1.ClusterRoleBinding{}
		o.decode(t, &binding)
		count(o, binding.Annotations)
	}
	for _, o := range ofKind(t, "Deployment") {
		pod, tested := pods[o.set]
		if tested == (o.set == "everything-off") || tested != (roles[o.set] == 2) {
			t.Errorf("%s: a test %v, %d roles and bindings of it", o, tested, roles[o.set])
		}
		if !tested {
			continue
		}
		d := deployment(t, o)
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s takes the test's pod for its own: %v", o, pod.Labels)
		}
		stratos := slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers)[0]
		if pod.Spec.ServiceAccountName != d.Spec.Template.Spec.ServiceAccountName ||
			pod.Spec.Containers[0].Image != stratos.Image || len(pod.Spec.Containers[0].Env) != len(stratos.Env) {
			t.Errorf("%s: the test is not run as Stratos: %+v", o, pod.Spec)
		}
	}
}
