package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestFlagsOfEachCommand: those of the process itself and of subcommands, with defaults, and
// commands that only group others have no section.
func TestFlagsOfEachCommand(t *testing.T) {
	var out bytes.Buffer
	if err := writeFlags(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"\n## stratos\n", "\n## stratos check\n", "\n## stratos stack publish\n",
		"\n## kubectl stratos why\n", "\n| `-A`, `--all-namespaces` |",
		"\n| `--namespace` | `stratos-system` | namespace of Stratos's own objects, such as its lease |\n",
		"\n| `--prices-file` |  | YAML file with what instances cost",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, not := range []string{"\n## stratos stack\n", "\n## stratos completion"} {
		if strings.Contains(page, not) {
			t.Errorf("%q on the page", not)
		}
	}
}
