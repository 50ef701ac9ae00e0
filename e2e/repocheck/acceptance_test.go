package repocheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAcceptance checks docs/acceptance.md against the sources; that the tests ran is checked after
// `make test`.
func TestAcceptance(t *testing.T) {
	rows, err := ReadRows(filepath.Join(repository, "docs", "acceptance.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := ReadSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Error("no rows")
	}
	for _, problem := range CheckRows(rows, string(makefile), sources) {
		t.Errorf("docs/acceptance.md: %s", problem)
	}
}

func TestNoTestCanSkipItself(t *testing.T) {
	sources, err := ReadSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, skip := range sources.Skips {
		t.Errorf("%s: a test that cannot run here fails and says why", skip)
	}
}

// tree writes files below a new folder and reads the sources in it.
func tree(t *testing.T, files map[string]string) *Sources {
	t.Helper()
	sources, err := ReadSources(treeOf(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// treeOf writes the files into a folder of their own.
func treeOf(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// someTests is a tree with a test in every form that a name in the table may mean.
func someTests(t *testing.T) *Sources {
	t.Helper()
	return tree(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestOne(t *testing.T) { for name := range rows() { t.Run(name, func(t *testing.T) { t.Run("inner", check) }) } }
func rows() map[string]int { return map[string]int{"a taint without a key": 1} }
func check(t *testing.T) { t.Log() }
func TestTwice(t *testing.T) { t.Log() }
func TestEmpty(t *testing.T) {}
func TestOfSomethingElse(n int) { println(n) }
func FuzzDecoder(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { t.Log() }) }
`,
		"b/b_test.go":          "package b\nimport \"testing\"\nfunc TestTwice(t *testing.T) { t.Log(\"elsewhere\") }\n",
		"b/plain.go":           "package b\nimport \"testing\"\nfunc TestInNoTestFile(t *testing.T) { t.Log() }\n",
		"testdata/out_test.go": "package out\nimport \"testing\"\nfunc TestLeftOut(t *testing.T) { t.Log() }\n",
	})
}

func TestRowsAreChecked(t *testing.T) {
	const makefile = "test: ## all\nlint:\n\techo\n"
	sources := someTests(t)
	tests := map[string]struct {
		row  string
		want string
	}{
		"a done point with its test":                {row: "| 2 | 1 | x | done | `make test` | `TestOne` |"},
		"a done point with a fuzz target and words": {row: "| 2 | 1 | x | done | `make test` | `FuzzDecoder` and more |"},
		"a row of a table as subtest": {
			row: "| 2 | 1 | x | done | `make test` | `TestOne/a taint without a key` |",
		},
		"a subtest as go prints it, and one inside it": {
			row: "| 2 | 1 | x | done | `make test` | `a/TestOne/a_taint_without_a_key/inner` |",
		},
		"a command with a variable":                   {row: "| 2 | 1 | x | done | `make test X=1` | `TestOne` |"},
		"an open point may name a test still to come": {row: "| 2 | 1 | x | open | `make test` | `TestToCome` |"},
		"an open point without anything":              {row: "| 2 | 1 | x | open | | |"},
		"a done point without a test": {row: "| 2 | 1 | x | done | `make test` | see there |",
			want: "names no test"},
		"a done point without a command": {row: "| 2 | 1 | x | done | | `TestOne` |", want: "no target"},
		"a command that the Makefile does not have": {row: "| 2 | 1 | x | done | `make tes` | `TestOne` |",
			want: "no target"},
		"a test that does not exist": {row: "| 2 | 1 | x | done | `make test` | `TestToCome` |",
			want: "does not exist"},
		"a test of two packages without its folder": {row: "| 2 | 1 | x | done | `make test` | `TestTwice` |",
			want: "write its folder"},
		"a test of two packages with its folder": {row: "| 2 | 1 | x | done | `make test` | `b/TestTwice` |"},
		"a test in the wrong folder": {row: "| 2 | 1 | x | done | `make test` | `b/TestOne` |",
			want: "does not exist"},
		"a subtest that nothing names": {row: "| 2 | 1 | x | done | `make test` | `TestOne/a taint` |",
			want: "names the subtest"},
		"a test without a statement": {row: "| 2 | 1 | x | done | `make test` | `TestEmpty` |",
			want: "does not exist"},
		"a function that go test does not run": {row: "| 2 | 1 | x | done | `make test` | `TestOfSomethingElse` |",
			want: "does not exist"},
		"a function outside of test files": {row: "| 2 | 1 | x | done | `make test` | `TestInNoTestFile` |",
			want: "does not exist"},
		"a test below testdata": {row: "| 2 | 1 | x | done | `make test` | `TestLeftOut` |",
			want: "does not exist"},
		"what stands between backticks is no test's name": {row: "| 2 | 1 | x | done | `make test` | `somewhere` |",
			want: "does not exist"},
		"a point left out": {row: "| 2 | 2 | x | open | | |", want: "where 1 is due"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rows, err := parseRows("| issue | point | what | status | command | tests |\n|---|---|---|---|---|---|\n" + tt.row +
				"\n")
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, CheckRows(rows, makefile, sources), tt.want)
		})
	}
}

// wantProblem wants exactly one problem with the text in it, or none where the text is empty.
func wantProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("got %q, want no problem", problems)
	case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
		t.Errorf("got %q, want one problem that says %q", problems, want)
	}
}

func TestMalformedRowsAreErrors(t *testing.T) {
	tests := map[string]string{
		"a column too few":                "| 2 | 1 | x | open | |",
		"a bar inside a text":             "| 2 | 1 | x | y | open | | |",
		"a status that nobody knows":      "| 2 | 1 | x | finished | | |",
		"an issue without a number":       "| two | 1 | x | open | | |",
		"a point with more than a number": "| 2 | 1a | x | open | | |",
	}
	for name, row := range tests {
		t.Run(name, func(t *testing.T) {
			if rows, err := parseRows(row); err == nil {
				t.Errorf("accepted as %+v", rows)
			}
		})
	}
}

func TestSkipsAreSeen(t *testing.T) {
	sources := tree(t, map[string]string{
		"a_test.go": `package a
import "testing"
func TestA(t *testing.T) { t.Skip("later") }
func TestB(test *testing.T) { test.SkipNow() }
func TestC(t *testing.T) { if testing.Short() { return } }
type world struct{ t *testing.T }
func (w world) need() { w.t.Skipf("no %s", "docker") }
func FuzzD(fuzz *testing.F) { fuzz.Fuzz(func(inner *testing.T, b []byte) { inner.Skip() }) }
`,
		"helper.go":  "package a\nimport \"testing\"\nfunc Need(tb testing.TB) { tb.Skip() }\n",
		"decoder.go": "package a\ntype d struct{}\nfunc (d) Skip() {}\nfunc f(t d) { t.Skip() }\n",
		"b_test.go":  "package a\nimport \"testing\"\nfunc TestE(t *testing.T) { var decoder d; decoder.Skip(); t.Log() }\n",
	})
	want := []string{"a_test.go:3: t.Skip", "a_test.go:4: test.SkipNow", "a_test.go:5: testing.Short",
		"a_test.go:7: t.Skipf", "a_test.go:8: inner.Skip", "helper.go:3: tb.Skip"}
	got := slices.Sorted(slices.Values(sources.Skips))
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
