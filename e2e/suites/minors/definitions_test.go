package minors

import (
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// testDefinitions: this minor's API server knows every CEL function and format of the definitions,
// and affords them. Nothing is stored, because Stratos runs and would fill the pools of the
// examples.
func testDefinitions(t *testing.T, r *framework.Rig) {
	dry := client.NewDryRunClient(client.WithFieldValidation(r.Client, metav1.FieldValidationStrict))
	for folder, least := range map[string]int{"seeds": 20, "edges": 11} {
		for name, o := range assert.Examples(t, folder, least) {
			if err := dry.Create(t.Context(), o.Unstructured); err != nil {
				t.Errorf("%s is refused: %v", name, err)
			}
		}
	}
	for name, o := range assert.Examples(t, "faulty", 40) {
		if err := dry.Create(t.Context(), o.Unstructured); !apierrors.IsInvalid(err) ||
			!strings.Contains(withoutValue(err.Error()), withoutValue(o.Want)) {
			t.Errorf("%s: %v, want it refused as invalid with %q", name, err, o.Want)
		}
	}
}

// quoted is what a message says the bad value is. Where a CEL rule refuses, the API server of 1.34
// quotes the type there.
var quoted = regexp.MustCompile(`(Invalid value: )("(?:[^"\\]|\\.)*"|-?[0-9]+): `)

// withoutValue leaves field and rule.
func withoutValue(message string) string { return quoted.ReplaceAllString(message, "$1") }
