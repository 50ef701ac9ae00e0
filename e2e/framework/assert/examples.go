package assert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Example is one of those in crds/testdata.
type Example struct {
	*unstructured.Unstructured
	// Want is what the first line of a faulty one says that the refusal contains.
	Want string
}

// Examples reads the objects of a folder of crds/testdata by file name. Fewer than least end the
// test: a folder that has moved would make every test pass. Tests run in their package's folder.
func Examples(t *testing.T, folder string, least int) map[string]Example {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "crds", "testdata", folder, "*.yaml"))
	if err != nil || len(paths) < least {
		t.Fatalf("%d files in crds/testdata/%s, want at least %d, error %v", len(paths), folder, least, err)
	}
	found := map[string]Example{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		want, _ := strings.CutPrefix(first, "# want: ")
		o := Example{Unstructured: &unstructured.Unstructured{}, Want: want}
		if err := o.UnmarshalJSON(data); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".yaml")] = o
	}
	return found
}
