package images

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// mutation has every pod of Stratos's namespace pull from a mirror, and gives it an init container
// and a sidecar that never ends.
const mutation = `Object{spec: Object.spec{
  initContainers: [Object.spec.initContainers{name: "mesh-init", image: "mesh.invalid/init:1"}],
  containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: "mirror.invalid/" + c.image}) +
    [Object.spec.containers{name: "mesh-proxy", image: "mesh.invalid/proxy:1"}]
}}`

// mutate installs the policy and waits until the API server follows it.
func mutate(t *testing.T, r *framework.Rig) {
	t.Helper()
	here := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: framework.Namespace}}
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh"},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &here,
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: mutation},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "mesh"},
	}
	assert.Create(t, r, policy, binding)
	assert.Await(t, "the policy", func(ctx context.Context) (bool, error) {
		pod := framework.Pod("harmless", "cpu", "100m")
		pod.Namespace = framework.Namespace
		if err := r.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return false, err
		}
		if len(pod.Spec.InitContainers) == 1 && len(pod.Spec.Containers) == 2 {
			return true, nil
		}
		return false, fmt.Errorf("the pod is admitted as %+v", pod.Spec)
	})
}

// TestImagesArePulledThroughAdmission: a mirror and a mesh change the pods that pull. The images
// come all the same, the node stops, and nothing of the mesh keeps it running.
func TestImagesArePulledThroughAdmission(t *testing.T) {
	t.Parallel()
	const name = "meshed"
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()}) // the mesh is not for the restricted standard
	mutate(t, r)
	p, class := pool(name, 1, v1alpha1.ControllerStop, "example.com/app:1", "example.com/other:1")
	assert.Create(t, r, agents("agent", "example.com/agent:1"), class, p)
	assert.AwaitStandby(t, r, name, 1)
	checkDisks(t, r, name, "mirror.invalid/example.com/app:1", "mirror.invalid/example.com/other:1",
		"mirror.invalid/example.com/agent:1",
		"mesh.invalid/init:1", "mesh.invalid/proxy:1")
	imagesPulled(t, r, name, metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
	awaitNoPulls(t, r, name)
}

// TestDaemonSetImageThatCannotBePulled: a DaemonSet of any tenant may name an image that no
// registry has. The pool warms up without it, and says so.
func TestDaemonSetImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	const name, gone, app = "tenant", "missing.invalid/gone:1", "example.com/app:1"
	r := restrict(t, assert.SharedRig(t))
	p, class := pool(name, 2, v1alpha1.ControllerStop, app)
	assert.Create(t, r, poolAgents(name, gone), class, p)
	assert.AwaitStandby(t, r, name, 2)
	checkDisks(t, r, name, app)
	imagesPulled(t, r, name, metav1.ConditionFalse, v1alpha1.ReasonImagePullFailed)
	awaitNoPulls(t, r, name)
	if got := starts(t, r, name); got != 0 {
		t.Errorf("%d starts, want none: what could not be pulled backs off", got)
	}
}
