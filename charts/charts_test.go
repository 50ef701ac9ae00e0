package charts

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// leastSets is how many sets the project has to render.
const leastSets = 12

// object is what every Kubernetes object has, and the document it was read from.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`

	set      string
	document []byte
}

func (o object) String() string {
	return o.set + ": " + o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// decode reads the object strictly into a type of its API.
func (o object) decode(t *testing.T, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(o.document, into); err != nil {
		t.Errorf("%s: %v", o, err)
	}
}

// rendered returns the objects of every set that make generate rendered, without the definitions:
// those are tested where they are made.
func rendered(t *testing.T) []object {
	t.Helper()
	files, err := filepath.Glob("testdata/rendered/*.yaml")
	if err != nil || len(files) < leastSets {
		t.Fatalf("%d rendered sets, want at least %d: %v", len(files), leastSets, err)
	}
	var objects []object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if bytes.Contains(document, []byte("\nkind: CustomResourceDefinition\n")) {
				continue
			}
			o := object{set: strings.TrimSuffix(filepath.Base(file), ".yaml"), document: document}
			if err := yaml.Unmarshal(document, &o); err != nil {
				t.Fatal(err)
			}
			if o.Kind != "" {
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// ofKind returns the objects of a kind, of which there must be some.
func ofKind(t *testing.T, kind string) []object {
	t.Helper()
	var found []object
	for _, o := range rendered(t) {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s in any set", kind)
	}
	return found
}
