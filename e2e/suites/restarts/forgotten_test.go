package restarts

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// forgetsAnAnswer: the scheduler was told to wait for a node, and Stratos dies before anything of
// that is written. The pod is asked about again, by the scheduler itself or because the leader sees
// to it; one standby node starts, and no instance is launched.
func (tr *truth) forgetsAnAnswer(t *testing.T, stratos framework.Running) {
	keepEmpty(t, tr.r, time.Hour)
	tr.refuseStarts(t)
	pod := framework.Pod("forgotten", "cpu", "1500m")
	assert.Create(t, tr.r, pod)
	assert.AwaitPending(t, tr.r, pod, corev1.PodReasonUnschedulable, "starting standby node")
	stratos.Process.Kill()
	tr.allowStarts(t)
	if starts := len(tr.since(t, fake.OpStart)); starts > 0 {
		t.Fatalf("%d starts: this shows nothing", starts)
	}
	if err := stratos.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	assert.AwaitRunning(t, tr.r, pod)
	tr.exact(t, 1)
	keepEmpty(t, tr.r, 0)
	assert.Remove(t, tr.r, pod)
	tr.awaitStandby(t, 1)
}

const refusal = "no-starts"

// refuseStarts has the API server refuse every start intent, and returns when it does.
func (tr *truth) refuseStarts(t *testing.T) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: refusal},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Validations: []admissionv1.Validation{
				{
					Expression: fmt.Sprintf(
						`!has(object.metadata.labels) || !('%[1]s' in object.metadata.labels) || object.metadata.labels['%[1]s'] != '%[2]s'`,
						v1alpha1.LabelState,
						v1alpha1.StateStarting,
					),
				},
			},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: refusal},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: refusal, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	assert.Create(t, tr.r, policy, binding)
	assert.Await(t, "starts refused", func(ctx context.Context) (bool, error) {
		err := tr.tryIntent(ctx)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), nil
	})
}

// allowStarts ends the refusal, and returns when it has ended.
func (tr *truth) allowStarts(t *testing.T) {
	t.Helper()
	assert.Delete(t, tr.r, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: refusal}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: refusal}})
	assert.Await(t, "starts allowed", func(ctx context.Context) (bool, error) {
		err := tr.tryIntent(ctx)
		return err == nil, err
	})
}

// tryIntent asks the API server what it would say of a start intent.
func (tr *truth) tryIntent(ctx context.Context) error {
	list := &corev1.NodeList{}
	if err := tr.r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: poolName}); err != nil {
		return err
	}
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelState, v1alpha1.StateStarting)
	return tr.r.Client.Patch(ctx, &list.Items[0], client.RawPatch(types.MergePatchType, []byte(body)), client.DryRunAll)
}
