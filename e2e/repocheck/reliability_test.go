package repocheck

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReliability holds docs/reliability.md to the failure list and to the tests that exist.
func TestReliability(t *testing.T) {
	promises, err := readPromises(filepath.Join(repository, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := ReadSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkPromises(promises, sources) {
		t.Errorf("docs/reliability.md: %s", problem)
	}
	for _, p := range promises {
		issue, point := 5, 5
		if strings.HasPrefix(p.line, "F") {
			issue, point = 9, 1
		}
		if strings.HasPrefix(p.line, "C") {
			issue, point = 10, 1
		}
		if p.status == "open" && pointIsDone(t, issue, point) {
			t.Errorf("docs/acceptance.md calls point %d of issue %d done, and line %s of docs/reliability.md is open", point,
				issue, p.line)
		}
	}
}

func pointIsDone(t *testing.T, issue, point int) bool {
	t.Helper()
	rows, err := ReadRows(filepath.Join(repository, "docs", "acceptance.md"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(rows, func(r Row) bool { return r.Issue == issue && r.Point == point && r.Status == Done })
}

func TestReliabilityCatches(t *testing.T) {
	sources := tree(
		t,
		map[string]string{"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log() }\n"},
	)
	whole := func(change func([]promise) []promise) []promise {
		var all []promise
		for _, line := range reliabilityLines() {
			all = append(all, promise{line: line, does: "x", status: "tested", tests: []TestName{"TestA"}})
		}
		return change(all)
	}
	for name, c := range map[string]struct {
		change func([]promise) []promise
		want   int
	}{
		"nothing":                  {func(p []promise) []promise { return p }, 0},
		"a line is missing":        {func(p []promise) []promise { return p[1:] }, 1},
		"a line is doubled":        {func(p []promise) []promise { return append(p, p[0]) }, 1},
		"a test that is not there": {func(p []promise) []promise { p[3].tests = []TestName{"TestB"}; return p }, 1},
		"tested by nothing":        {func(p []promise) []promise { p[3].tests = nil; return p }, 1},
		"an unknown status":        {func(p []promise) []promise { p[3].status = "fine"; return p }, 1},
		"nothing is said":          {func(p []promise) []promise { p[3].does = ""; return p }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := checkPromises(whole(c.change), sources); len(got) != c.want {
				t.Errorf("%q, want %d problems", got, c.want)
			}
		})
	}
}
