package minors

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// testdata is the folder of the objects, which belongs to package crds.
const testdata = "../../../crds/testdata"

// testDefinitions: this minor's API server knows every CEL function and format of the definitions,
// and affords them. Nothing is stored, because Stratos runs and would fill the pools of the
// examples.
func testDefinitions(t *testing.T, r *framework.Rig) {
	dry := client.NewDryRunClient(client.WithFieldValidation(r.Client, metav1.FieldValidationStrict))
	for folder, least := range map[string]int{"seeds": 20, "edges": 11} {
		for _, path := range paths(t, folder, least) {
			object, _ := read(t, path)
			if err := dry.Create(t.Context(), object); err != nil {
				t.Errorf("%s is refused: %v", path, err)
			}
		}
	}
	for _, path := range paths(t, "faulty", 40) {
		object, want := read(t, path)
		if err := dry.Create(t.Context(), object); !apierrors.IsInvalid(err) ||
			!strings.Contains(withoutValue(err.Error()), withoutValue(want)) {
			t.Errorf("%s: %v, want it refused as invalid with %q", path, err, want)
		}
	}
}

// quoted is what a message says the bad value is. Where a CEL rule refuses, the API server of 1.34
// quotes the type there.
var quoted = regexp.MustCompile(`(Invalid value: )("(?:[^"\\]|\\.)*"|-?[0-9]+): `)

// withoutValue leaves field and rule.
func withoutValue(message string) string { return quoted.ReplaceAllString(message, "$1") }

// paths are the objects of a folder of package crds; fewer than least is an error, since a folder
// that has moved would hide everything.
func paths(t *testing.T, folder string, least int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(testdata, folder, "*.yaml"))
	if err != nil || len(found) < least {
		t.Fatalf("%s: %d files, want at least %d (%v)", folder, len(found), least, err)
	}
	return found
}

// read returns the object and what the first line of a faulty one says the refusal contains.
func read(t *testing.T, path string) (*unstructured.Unstructured, string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &object.Object); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	_, want, _ := strings.Cut(first, "# want: ")
	return object, want
}
