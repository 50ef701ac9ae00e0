package helm

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestPodsAreRestricted checks the pods of every set as a namespace with
// pod-security.kubernetes.io/enforce=restricted would.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, s := range sets(t) {
		t.Run(s.Name, func(t *testing.T) {
			pods := []corev1.PodTemplateSpec{deploymentOf(t, s).Spec.Template}
			for _, job := range find(objectsOf(t, s), "Job") {
				pods = append(pods, decoded(t, job, &batchv1.Job{}).Spec.Template)
			}
			for _, pod := range pods {
				if s.Name == "no-security-contexts" {
					if pod.Spec.SecurityContext != nil || pod.Spec.Containers[0].SecurityContext != nil {
						t.Error("a security context is left")
					}
					continue
				}
				if s.Name == "openshift" && pod.Spec.SecurityContext.RunAsUser != nil {
					t.Error("an id is left")
				}
				// What the value is for, and the one thing that such pods lack.
				if on, _, _ := unstructured.NestedBool(s.Values, "hostNetwork"); on {
					pod.Spec.HostNetwork = false
				}
				if judged := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta,
					&pod.Spec)); !judged.Allowed {
					t.Errorf("%s: %s", judged.ForbiddenReason(), judged.ForbiddenDetail())
				}
			}
		})
	}
}

// TestPodsAreRestrictedCatches: the evaluator does see what is missing.
func TestPodsAreRestrictedCatches(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := set(t, "default")
	s.Values["securityContext"] = map[string]any{"allowPrivilegeEscalation": true}
	pod := deploymentOf(t, s).Spec.Template
	judged := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted,
		Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
	if judged.Allowed {
		t.Error("a container that may gain privileges is allowed")
	}
}

func deploymentOf(t *testing.T, s Set) *appsv1.Deployment {
	t.Helper()
	return decoded(t, find(objectsOf(t, s), "Deployment")[0], &appsv1.Deployment{})
}

func decoded[T any](t *testing.T, object *unstructured.Unstructured, into T) T {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatal(err)
	}
	return into
}
