package repocheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuarantees checks docs/guarantees.yaml against the sources. After the tests, `check results`
// checks that they ran.
func TestGuarantees(t *testing.T) {
	list, err := ReadGuarantees(repository)
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
	if len(list.Acceptance) == 0 {
		t.Error("no acceptance point")
	}
	for _, problem := range list.Check(string(makefile), sources) {
		t.Errorf("docs/guarantees.yaml: %s", problem)
	}
}

// someList is a list without a fault, in which F1 is the first line of the field's.
func someList() string {
	text := `acceptance:
- issue: 9
  title: A title
  rows:
  - {key: 9/1, what: one, status: done, command: make test, tests: [TestOne, FuzzDecoder]}
  - {key: 9/2, what: two, status: open}
  - {key: 9/3, what: three, status: open}
reliability:
- title: Faults
  about: Something about them.
  rows:
`
	for _, line := range failureList() {
		text += "  - {key: " + line + ", what: f, stratos: does, status: tested, tests: [TestOne]}\n"
	}
	return text
}

// readList reads a repository that has nothing but the list, in which with replaces old.
func readList(t *testing.T, old, with string) (root string, list *Guarantees, err error) {
	t.Helper()
	root = treeOf(t, map[string]string{"docs/guarantees.yaml": strings.Replace(someList(), old, with, 1)})
	list, err = ReadGuarantees(root)
	return root, list, err
}

func TestGuaranteesAreRefused(t *testing.T) {
	const f1 = "  - {key: F1, what: f, stratos: does, status: tested, tests: [TestOne]}\n"
	c15 := strings.Replace(f1, "F1", "C15", 1)
	tests := map[string]struct{ old, with, want string }{
		"nothing is wrong":                {},
		"an unknown key":                  {"what: two", "text: two", `unknown field "text"`},
		"a key given twice":               {"what: two", "what: two, what: 2", `key "what" already set`},
		"a status that nobody knows":      {"open", "finished", `9/2: status "finished"`},
		"an issue without a number":       {"issue: 9", "issue: nine", "issue"},
		"a point with more than a number": {"9/2", "9/2a", "9/2a stands where 9/2 is due"},
		"a point left out":                {"9/2", "9/3", "9/3 stands where 9/2 is due"},
		"a point given twice":             {"9/2", "9/1", "9/1 is listed twice"},
		"a done point without a test":     {", tests: [TestOne, FuzzDecoder]", "", "9/1: done, but names no test"},
		"a point that says nothing":       {"what: two, ", "", "9/2 says nothing"},
		"a bar inside a text":             {"what: two", "what: t|o", "9/2: a table has no place"},
		"a line break inside a text":      {"what: two", `what: "t\no"`, "9/2: a table has no place"},
		"a bar inside a test's name":      {"FuzzDecoder", "Fuzz|Decoder", "9/1: a table has no place"},
		"a point with a text for a line":  {"what: two", "what: two, stratos: does", `9/2: "does" has no column`},
		"a line with a command":           {"stratos: does", "stratos: does, command: make x", `1: "make x" has no column`},
		"a line left out":                 {f1, "", "F2 stands where F1 is due"},
		"a line given twice":              {f1, f1 + f1, "F1 is listed twice"},
		"the last line left out":          {c15, "", "the end stands where C15 is due"},
		"a line too many":                 {c15, c15 + strings.Replace(c15, "C15", "C16", 1), "C16 stands where the end is due"},
		"a line tested by nothing":        {f1, strings.Replace(f1, "[TestOne]", "[]", 1), "F1: tested, but"},
		"a line of an unknown status":     {f1, strings.Replace(f1, "tested", "fine", 1), `F1: status "fine"`},
		"a line that says nothing":        {f1, strings.Replace(f1, "does", "", 1), "F1 says nothing"},
		"a line open, its point done":     {f1, strings.Replace(f1, "tested", "open", 1), "F1 is open, but row 9/1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := readList(t, tt.old, tt.with)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestGuaranteesAreChecked(t *testing.T) {
	tests := map[string]struct{ old, with, want string }{
		"nothing is wrong":              {},
		"a command with a variable":     {"make test", "make test X=1", ""},
		"no command":                    {"make test", "", `9/1: command "" is no target`},
		"a command that does not exist": {"make test", "make tes", `9/1: command "make tes" is no target`},
		"a test that does not exist":    {"[TestOne, FuzzDecoder]", "[TestToCome]", "9/1: test TestToCome does not exist"},
		"an open point's test to come":  {"status: open", "status: open, tests: [TestToCome]", ""},
		"a line's test to come":         {"[TestOne]", "[TestToCome]", "1: test TestToCome does not exist"},
		"an open line's test to come":   {"tested, tests: [TestOne]", "open, tests: [TestToCome]", "1: test TestToCome"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, list, err := readList(t, tt.old, tt.with)
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, list.Check("lint:\ntest: ## all\n\techo\n", someTests(t)), tt.want)
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

func TestPagesShowTheList(t *testing.T) {
	root, list, err := readList(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := list.WritePages(root); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"acceptance.md": "\n## Issue 9: A title\n\n| issue | point | what | status | command | tests |\n" +
			"|---|---|---|---|---|---|\n| 9 | 1 | one | done | `make test` | `TestOne`, `FuzzDecoder` |\n" +
			"| 9 | 2 | two | open | | |\n| 9 | 3 | three | open | | |\n",
		"reliability.md": "\n## Faults\n\nSomething about them.\n\n| line | fault | Stratos | status | tests |\n" +
			"|---|---|---|---|---|\n| 1 | f | does | tested | `TestOne` |\n",
	} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is %s (%v), want in it %s", page, text, err, want)
		}
	}
}
