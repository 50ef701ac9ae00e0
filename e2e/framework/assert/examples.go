package assert

import (
	"os"
	"path/filepath"
	"regexp"
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

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// PageObjects are the objects that a page of the repository shows, in order. Tests run in their
// package's folder.
func PageObjects(t *testing.T, page string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		for document := range strings.SplitSeq(block[1], "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				t.Fatalf("%s: %v in\n%s", page, err, document)
			}
			found = append(found, o)
		}
	}
	return found
}
