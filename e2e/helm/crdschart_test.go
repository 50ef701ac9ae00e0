package helm

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDefinitionsOfBothCharts: the chart of the definitions alone has those of the chart of
// Stratos, by both Helms, and KindNodeClass where it is asked for.
func TestDefinitionsOfBothCharts(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"default": {},
		"kind":    {"kindNodeClass": map[string]any{"enabled": true}},
	} {
		want := definitionsOf(objectsOf(t, set(t, name)))
		if n := map[string]int{"default": 2, "kind": 3}[name]; len(want) != n {
			t.Fatalf("set %s: definitions %v, want %d", name, slices.Collect(maps.Keys(want)), n)
		}
		for _, major := range Majors() {
			objects := crdsChart(t, major, values)
			if diff := cmp.Diff(want, definitionsOf(objects)); diff != "" || len(objects) != len(want) {
				t.Errorf("%s, %d objects, as with set %s (-stratos +stratos-crds):\n%s", major, len(objects), name, diff)
			}
		}
	}
}

// TestDefinitionsChartLints: and it refuses a value that does not exist.
func TestDefinitionsChartLints(t *testing.T) {
	for _, major := range Majors() {
		s := Set{Namespace: "n", Kubernetes: "v1.37.2", Values: map[string]any{}}
		if found, err := major.Lint(tree.CRDsChartDir(), s); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %q", major, err, found)
		}
		s.Values["kind"] = true
		if found, err := major.Lint(tree.CRDsChartDir(), s); err != nil || len(found) == 0 {
			t.Errorf("%s takes a value that does not exist: %v", major, err)
		}
	}
}

// TestDefinitionsChartIsAccepted applies it to the API server, and the chart of Stratos without
// definitions on top.
func TestDefinitionsChartIsAccepted(t *testing.T) {
	c := newCluster(t)
	c.applyAll(t, crdsChart(t, Helm4, map[string]any{"keep": true, "commonLabels": map[string]any{"a/b": "c"}}))
	s := set(t, "extra") // crds.enabled is false
	c.namespace(t, s.Namespace)
	c.applyAll(t, objectsOf(t, s))
}

func crdsChart(t *testing.T, major Major, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	output, err := major.Render(tree.CRDsChartDir(), Set{Release: "stratos-crds", Namespace: "stratos-system",
		Kubernetes: "v1.37.2", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := output.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// definitionsOf are the specs and annotations of the definitions, by name.
func definitionsOf(objects []*unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	for _, o := range find(objects, "CustomResourceDefinition") {
		found[o.GetName()] = []any{o.Object["spec"], o.GetAnnotations()}
	}
	return found
}
