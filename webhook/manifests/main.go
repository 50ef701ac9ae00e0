// Command manifests completes the webhook configurations that controller-gen writes: its markers
// know neither matchConditions nor namespaceSelector. It reads them from standard input and writes
// them to standard output; make generate runs it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// podWebhook is the one webhook about pods of others.
const podWebhook = "pods.stratos.sh"

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	documents := bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	if len(documents) != 2 {
		return fmt.Errorf("%d documents, want the mutating and the validating configuration", len(documents))
	}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(yaml.UnmarshalStrict(documents[0], mutating),
		yaml.UnmarshalStrict(documents[1], validating)); err != nil {
		return err
	}
	complete(mutating, validating)
	for _, configuration := range []any{mutating, validating} {
		document, err := yaml.Marshal(configuration)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", document); err != nil {
			return err
		}
	}
	return nil
}

func complete(mutating *admissionregistrationv1.MutatingWebhookConfiguration,
	validating *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range mutating.Webhooks {
		w := &mutating.Webhooks[i]
		if w.Name == podWebhook {
			w.NamespaceSelector = optedIn()
			continue
		}
		w.MatchConditions = specChanges()
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].MatchConditions = specChanges()
	}
}

// specChanges leaves out updates that change no spec. The scaler writes finalizers and the
// annotation stratos.sh/launches to pools: they must go through while the webhook cannot be
// reached, else running pools would stall with it.
func specChanges() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{
			Name:       "spec-changes",
			Expression: `request.operation != "UPDATE" || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec`,
		},
	}
}

// optedIn selects the namespaces with the label, without those that Stratos itself depends on. The
// webhook checks both once more.
func optedIn() *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.LabelScheduler: v1alpha1.SchedulerEnabled},
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{"kube-system", "cert-manager"},
		}},
	}
}
