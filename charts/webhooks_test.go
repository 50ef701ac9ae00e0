package charts

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// registered is what both kinds of webhooks have in common, as far as it matters here.
type registered struct {
	path          string
	service       admissionv1.ServiceReference
	failurePolicy admissionv1.FailurePolicyType
	timeout       int32
	namespaces    *metav1.LabelSelector
	hasCA         bool
}

func webhooks(t *testing.T, set string) map[string]registered {
	t.Helper()
	all := map[string]registered{}
	add := func(name string, client admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType, timeout *int32,
		namespaces *metav1.LabelSelector) {
		all[name] = registered{*client.Service.Path, *client.Service, *policy, *timeout, namespaces, len(client.CABundle) > 0}
	}
	for _, o := range rendered(t) {
		switch {
		case o.set != set:
		case o.Kind == "MutatingWebhookConfiguration":
			c := &admissionv1.MutatingWebhookConfiguration{}
			o.decode(t, c)
			for _, w := range c.Webhooks {
				add(w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds, w.NamespaceSelector)
			}
		case o.Kind == "ValidatingWebhookConfiguration":
			c := &admissionv1.ValidatingWebhookConfiguration{}
			o.decode(t, c)
			for _, w := range c.Webhooks {
				add(w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds, w.NamespaceSelector)
			}
		}
	}
	return all
}

// TestKindNodeClassComesWithItsCloud: its definition, its webhook and every permission on it, those
// of people too.
func TestKindNodeClassComesWithItsCloud(t *testing.T) {
	for _, set := range []string{"default", "fake", "kind"} {
		text, err := os.ReadFile("testdata/rendered/" + set + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if there := bytes.Contains(bytes.ToLower(text), []byte("kindnodeclasses")); there != (set == "kind") {
			t.Errorf("%s: KindNodeClass is there: %v", set, there)
		}
	}
}

// podsWebhook gives the pods of namespaces that opted in to the scheduler.
const podsWebhook = "pods.stratos.sh"

var markerPath = regexp.MustCompile(`(?m)^// \+kubebuilder:webhook:path=([^,]+),.*,name=([^,]+),`)

// TestWebhooksAreThoseOfTheMarkers: each webhook that the code serves is registered, at its path.
func TestWebhooksAreThoseOfTheMarkers(t *testing.T) {
	source, err := os.ReadFile("../webhook/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, marker := range markerPath.FindAllStringSubmatch(string(source), -1) {
		want[marker[2]] = marker[1]
	}
	if len(want) < 5 {
		t.Fatalf("found %d markers, which is less than there are", len(want))
	}
	got := map[string]string{}
	for name, w := range webhooks(t, "kind") {
		got[name] = w.path
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-markers +chart):\n%s", diff)
	}
}

// TestPodsAreNeverRefused: of all webhooks the one of pods must never refuse one.
func TestPodsAreNeverRefused(t *testing.T) {
	for _, set := range []string{"default", "exposed", "existing-secret", "everything-on", "name-overrides"} {
		w, found := webhooks(t, set)[podsWebhook]
		if !found {
			t.Errorf("%s: no webhook of pods", set)
			continue
		}
		if w.failurePolicy != admissionv1.Ignore || w.timeout > 2 {
			t.Errorf("%s: failure policy %s, timeout %d s", set, w.failurePolicy, w.timeout)
		}
		if w.namespaces == nil || w.namespaces.MatchLabels["stratos.sh/scheduler"] != "enabled" ||
			len(w.namespaces.MatchExpressions) != 1 {
			t.Fatalf("%s: namespaces %v", set, w.namespaces)
		}
		left := w.namespaces.MatchExpressions[0]
		for _, never := range []string{"kube-system", "cert-manager", w.service.Namespace} {
			if left.Key != "kubernetes.io/metadata.name" || left.Operator != metav1.LabelSelectorOpNotIn ||
				!slices.Contains(left.Values, never) {
				t.Errorf("%s: namespace %s is not left out by %v", set, never, left)
			}
		}
	}
}

// TestPodsAreGivenToNobody: where no scheduler asks the extender, a pod that is given to one would
// wait forever.
func TestPodsAreGivenToNobody(t *testing.T) {
	if _, found := webhooks(t, "no-scheduler")[podsWebhook]; found {
		t.Error("pods are given to a scheduler that is not there")
	}
}

// TestOurOwnKindsFollowTheValues: failure policy and timeout are the administrator's choice.
func TestOurOwnKindsFollowTheValues(t *testing.T) {
	for set, want := range map[string]struct {
		policy  admissionv1.FailurePolicyType
		timeout int32
	}{"default": {admissionv1.Fail, 10}, "everything-on": {admissionv1.Ignore, 5}} {
		for name, w := range webhooks(t, set) {
			if name != podsWebhook && (w.failurePolicy != want.policy || w.timeout != want.timeout) {
				t.Errorf("%s, %s: failure policy %s, timeout %d s", set, name, w.failurePolicy, w.timeout)
			}
		}
	}
}

// TestWebhooksAreTrusted: by a CA from the values, or by injection; without a certificate there is
// nothing to register.
func TestWebhooksAreTrusted(t *testing.T) {
	for set, inline := range map[string]bool{"default": false, "existing-secret": true, "exposed-existing-secret": true} {
		for name, w := range webhooks(t, set) {
			if w.hasCA != inline {
				t.Errorf("%s, %s: a CA from the values %v, want %v", set, name, w.hasCA, inline)
			}
		}
	}
	for _, set := range []string{"fake", "everything-off"} {
		if found := webhooks(t, set); len(found) > 0 {
			t.Errorf("%s: %d webhooks that nobody serves", set, len(found))
		}
	}
}
