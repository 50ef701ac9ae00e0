package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	if err := os.WriteFile(page, []byte("<!-- bench:begin -->\nold\n<!-- bench:end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := figures.Report{Machine: Machine(), Settings: Settings(BootTime),
		Rows: []figures.Row{{Scenario: "pod", Name: "starts", Ours: &figures.Figure{Value: 7}}}}
	folder := filepath.Join(dir, "dist", "bench")
	if err := Keep(report, folder, "bench.json", page, "bench"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{page: "| pod | starts | - | 7 |",
		filepath.Join(folder, "bench.json"): `"name": "starts"`} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %q in\n%s", path, err, want, text)
		}
	}
	if err := Keep(report, folder, "bench.json", page, "another"); err == nil {
		t.Error("a page without the markers was written")
	}
}
