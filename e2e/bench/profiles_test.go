package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissedRowsHaveTheirProfile: a row of the table in docs/performance.md that missed its target
// has, linked from that page, what a profile says of its scenario.
func TestMissedRowsHaveTheirProfile(t *testing.T) {
	const docs = "../../docs"
	page, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, begins := strings.Cut(string(page), "<!-- bench:begin -->")
	table, _, ends := strings.Cut(table, "<!-- bench:end -->")
	if !begins || !ends {
		t.Fatal("the page has no table")
	}
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 9 {
			continue
		}
		rows++
		if strings.TrimSpace(cells[7]) != "missed" {
			continue
		}
		scenario := strings.TrimSpace(cells[1])
		found, err := filepath.Glob(filepath.Join(docs, "profiles", scenario+"-*.txt"))
		if err != nil || len(found) == 0 {
			t.Errorf("%s missed its target, and docs/profiles has no profile of scenario %s (%v)", strings.TrimSpace(cells[2]),
				scenario, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "with all that they call") {
				t.Errorf("%s is no text of a profile (%v)", path, err)
			}
			if link := "(profiles/" + filepath.Base(path) + ")"; !strings.Contains(string(page), link) {
				t.Errorf("docs/performance.md has no link %s", link)
			}
		}
	}
	if rows < 50 {
		t.Errorf("the table has %d rows", rows)
	}
}
