package webhook

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// fault is a row of testdata/faults.yaml; the suite e2e/suites/admission applies the same rows to a
// real API server.
type fault struct {
	Kind    string          `json:"kind"`
	Refused bool            `json:"refused"`
	Change  json.RawMessage `json:"change"`
	Field   string          `json:"field"`
	Says    []string        `json:"says"`
}

func load[T any](t testing.TB, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var into T
	if err := yaml.UnmarshalStrict(data, &into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return into
}

// good returns an object of testdata/good.yaml with a JSON merge patch applied.
func good[T any](t testing.TB, change string) *T {
	t.Helper()
	kind := "NodePool"
	switch any(new(T)).(type) {
	case *v1alpha1.AWSNodeClass:
		kind = v1alpha1.KindAWSNodeClass
	case *v1alpha1.KindNodeClass:
		kind = v1alpha1.KindKindNodeClass
	}
	if change == "" {
		change = "{}"
	}
	data, err := jsonpatch.MergePatch(load[map[string]json.RawMessage](t, "testdata/good.yaml")[kind], []byte(change))
	if err != nil {
		t.Fatal(err)
	}
	into := new(T)
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func judge(t testing.TB, f fault) (field.ErrorList, admission.Warnings) {
	t.Helper()
	if f.Kind == v1alpha1.KindKindNodeClass {
		return ValidateKindNodeClass(good[v1alpha1.KindNodeClass](t, string(f.Change)), KindNodeClassContext{})
	}
	if f.Kind == v1alpha1.KindAWSNodeClass {
		class := good[v1alpha1.AWSNodeClass](t, string(f.Change))
		DefaultAWSNodeClass(class)
		return ValidateAWSNodeClass(class, AWSNodeClassContext{})
	}
	pool := good[v1alpha1.NodePool](t, string(f.Change))
	DefaultNodePool(pool)
	around := NodePoolContext{}
	if pool.Spec.Template.NodeClassRef.Name != "nobody" {
		around.Class = good[v1alpha1.AWSNodeClass](t, "")
	}
	return ValidateNodePool(pool, around)
}

func TestFaults(t *testing.T) {
	for name, f := range load[map[string]fault](t, "testdata/faults.yaml") {
		t.Run(name, func(t *testing.T) {
			errs, warnings := judge(t, f)
			var refusals []string
			for _, err := range errs {
				refusals = append(refusals, err.Error())
			}
			got, others := refusals, []string(warnings)
			if !f.Refused {
				got, others = others, got
			}
			if len(got) != 1 || len(others) != 0 {
				t.Fatalf("refused: %q\nwarned: %q\nwant one message, refused %v", refusals, warnings, f.Refused)
			}
			if !strings.HasPrefix(got[0], f.Field+": ") {
				t.Errorf("%q does not begin with the field %s", got[0], f.Field)
			}
			for _, want := range f.Says {
				if !strings.Contains(got[0], want) {
					t.Errorf("%q does not say %q", got[0], want)
				}
			}
			if !f.Refused && len(got[0]) > 256 {
				t.Errorf("the API server cuts a warning of %d characters: %q", len(got[0]), got[0])
			}
		})
	}
}

func TestGoodObjectsAreLeftAlone(t *testing.T) {
	class, pool := good[v1alpha1.AWSNodeClass](t, ""), good[v1alpha1.NodePool](t, "")
	if errs, warnings := ValidateAWSNodeClass(class,
		AWSNodeClassContext{Pools: []v1alpha1.NodePool{*pool}}); len(errs)+len(warnings) > 0 {
		t.Errorf("class: refused %v, warned %q", errs, warnings)
	}
	if errs, warnings := ValidateNodePool(pool, NodePoolContext{Class: class}); len(errs)+len(warnings) > 0 {
		t.Errorf("pool: refused %v, warned %q", errs, warnings)
	}
}
