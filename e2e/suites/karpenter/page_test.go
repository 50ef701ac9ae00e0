package karpenter

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// page is the document whose examples the suite applies, so that the two cannot say different
// things.
const page = "docs/karpenter.md"

// examples are the objects of the page, by kind, group and name.
type examples struct {
	objects map[string]*unstructured.Unstructured
	taken   map[string]bool
}

func readPage(t *testing.T) *examples {
	t.Helper()
	e := &examples{objects: map[string]*unstructured.Unstructured{}, taken: map[string]bool{}}
	for _, o := range assert.PageObjects(t, page) {
		if e.objects[keyOf(o)] != nil {
			t.Fatalf("%s shows %s twice", page, keyOf(o))
		}
		e.objects[keyOf(o)] = o
	}
	return e
}

func keyOf(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + "/" + o.GetName()
}

// take returns a copy of an example, changed as the caller says.
func (e *examples) take(t *testing.T, key string,
	changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	if e.objects[key] == nil {
		t.Fatalf("%s has no %s, only %q", page, key, slices.Sorted(maps.Keys(e.objects)))
	}
	e.taken[key] = true
	o := e.objects[key].DeepCopy()
	for _, change := range changes {
		change(o)
	}
	return o
}

// mustAllBeTaken fails for an example that no test has applied: it would be untested. Those of the
// other recipe are another test's.
func (e *examples) mustAllBeTaken(t *testing.T, others ...string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(e.objects)) {
		if !e.taken[key] && !slices.Contains(others, key) {
			t.Errorf("%s: nothing applied %s", page, key)
		}
	}
}

// set writes a field; the path is one of objects, without lists.
func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			panic(err) // the path crosses something that is no object: a mistake in the test
		}
	}
}

// without removes a field that has to be there, else the change would be none.
func without(t *testing.T, path ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		if _, found, err := unstructured.NestedFieldNoCopy(o.Object, path...); err != nil || !found {
			t.Fatalf("%s has no %s to leave out: %v", keyOf(o), strings.Join(path, "."), err)
		}
		unstructured.RemoveNestedField(o.Object, path...)
	}
}

func named(name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetName(name) }
}

// labelled gives a Deployment's pods a label of their own, so that it does not count those of its
// original.
func labelled(app string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		named(app)(o)
		set(app, "spec", "selector", "matchLabels", "app")(o)
		set(app, "spec", "template", "metadata", "labels", "app")(o)
	}
}
