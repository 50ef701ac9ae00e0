package patch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlantedBugsApply keeps the patches from rotting: each must fit the tree as it is now.
func TestPlantedBugsApply(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := List("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(patches) < 12 {
		t.Errorf("%d planted bugs, want at least 12", len(patches))
	}
	for _, p := range patches {
		if files, err := Plant(t.Context(), root, t.TempDir(), p.File); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files changed, error %v", p.Name, len(files), err)
		}
	}
}

const document, begin, end = "../../../../docs/model.md",
	"<!-- table: UPDATE=1 go test ./model/mutants/patch, in e2e -->\n", "<!-- end of table -->\n"

// TestDocumentNamesThePlantedBugs: docs/model.md has each of them, in the words of its patch.
func TestDocumentNamesThePlantedBugs(t *testing.T) {
	patches, err := List("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between its markers", document)
	}
	var b strings.Builder
	b.WriteString("| patch | bug | breaks |\n|---|---|---|\n")
	for _, p := range patches {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", p.Name, p.What, strings.Join(p.Breaks, "`, `"))
	}
	want := head + begin + b.String() + end + tail
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s differs from the patches; run in e2e: UPDATE=1 go test ./model/mutants/patch", document)
	}
}
