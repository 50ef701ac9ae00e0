package repocheck

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// Guarantees is docs/guarantees.yaml: the acceptance points of each issue, and what Stratos does
// about each line of the project's failure list.
type Guarantees struct {
	Acceptance  []Section `json:"acceptance"`
	Reliability []Section `json:"reliability"`
}

// Section is a section of docs/acceptance.md (with its Issue) or docs/reliability.md (without).
type Section struct {
	Issue int    `json:"issue"`
	Title string `json:"title"`
	About string `json:"about"`
	// Column is the heading of what went wrong, "fault" if empty.
	Column string `json:"column"`
	Rows   []Row  `json:"rows"`
}

// Row is an acceptance point, with a key such as 9/1 and a Command, or a line of the failure list,
// with a key such as F1 and what Stratos does.
type Row struct {
	Key     string     `json:"key"`
	What    string     `json:"what"`
	Stratos string     `json:"stratos"`
	Status  Status     `json:"status"`
	Command string     `json:"command"`
	Tests   []TestName `json:"tests"`
}

// Status says how far a row is shown.
type Status string

// A point is Done or Open, a line Tested, a Limit or Open. The tests of an Open point may be still
// to come.
const (
	Open   Status = "open"
	Done   Status = "done"
	Tested Status = "tested"
	Limit  Status = "limit"
)

// TestName is a test as the list writes it: TestX, TestX/subtest, and with its folder in front
// (extender/fit/TestX) where the name alone is not unique.
type TestName string

var testName = regexp.MustCompile(`^(?:(.*?)/)?((?:Test|Fuzz)[A-Z0-9_]\w*)(?:/(.*))?$`)

// Split returns the folder ("" when none is given), the function and the subtest path ("" when none
// is given). The function is "" when the name contains none.
func (n TestName) Split() (folder, function, subtest string) {
	if parts := testName.FindStringSubmatch(string(n)); parts != nil {
		return parts[1], parts[2], parts[3]
	}
	return string(n), "", ""
}

// ReadGuarantees reads the list of the repository at root. What is wrong with the list itself is an
// error: a row that is not understood would drop out of every check.
func ReadGuarantees(root string) (*Guarantees, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.yaml"))
	if err != nil {
		return nil, err
	}
	var list Guarantees
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("docs/guarantees.yaml: %w", err)
	}
	if problems := list.problems(); len(problems) > 0 {
		return nil, errors.New("docs/guarantees.yaml: " + strings.Join(problems, "\n"))
	}
	return &list, nil
}

func (g *Guarantees) rows() []Row {
	var rows []Row
	for _, section := range slices.Concat(g.Acceptance, g.Reliability) {
		rows = append(rows, section.Rows...)
	}
	return rows
}

// Cells are the first columns of the row's table.
func (r Row) Cells() string { return strings.ReplaceAll(r.Key, "/", " | ") }

// point is the acceptance point that wants a line, "" if the row is a point itself.
func (r Row) point() string {
	switch {
	case strings.Contains(r.Key, "/"):
		return ""
	case strings.HasPrefix(r.Key, "F"):
		return "9/1"
	case strings.HasPrefix(r.Key, "C"):
		return "10/1"
	}
	return "5/5"
}

// failureList are the lines of the project's failure list, which is not in the repository, in its
// order.
func failureList() []string {
	return strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 " +
		"20 21 22 23 24 24a 24b 25 26 27 28 29 30 30a 31 32 33 34 35 36 37 38a 38b 38 " +
		"40 41 42 42a 42b 43 44 45 46 47 48 K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K11 " +
		"F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15 F16 F17 F18 F19 F20 F21 " +
		"C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15")
}

// due are the keys in the order in which the list must have them. The points of each issue run 1,
// 2, 3, ...
func (g *Guarantees) due() []string {
	var keys []string
	for _, section := range g.Acceptance {
		for i := range section.Rows {
			keys = append(keys, fmt.Sprintf("%d/%d", section.Issue, i+1))
		}
	}
	return append(append(keys, failureList()...), "the end")
}

// problems returns what is wrong with the list, whatever the sources are.
func (g *Guarantees) problems() []string {
	var problems, keys []string
	states := map[string]Status{}
	for _, row := range g.rows() {
		if states[row.Key] != "" {
			problems = append(problems, "row "+row.Key+" is listed twice")
		}
		if row.Status == Open && states[row.point()] == Done {
			problems = append(problems, fmt.Sprintf("row %s is open, but row %s is done", row.Key, row.point()))
		}
		states[row.Key] = row.Status
		keys = append(keys, row.Key)
		problems = append(problems, row.problems()...)
	}
	due := g.due()
	for i, key := range append(keys, "the end") {
		if key != due[i] {
			return append(problems, fmt.Sprintf("%s stands where %s is due", key, due[i]))
		}
	}
	return problems
}

func (r Row) problems() []string {
	states, texts, foreign := []Status{Done, Open}, []string{r.What}, r.Stratos
	if r.point() != "" {
		states, texts, foreign = []Status{Tested, Limit, Open}, append(texts, r.Stratos), r.Command
	}
	var problems []string
	if !slices.Contains(states, r.Status) {
		problems = append(problems, fmt.Sprintf("row %s: status %q, want one of %q", r.Key, r.Status, states))
	}
	if r.Status == states[0] && len(r.Tests) == 0 {
		problems = append(problems, fmt.Sprintf("row %s: %s, but names no test", r.Key, r.Status))
	}
	if foreign != "" {
		problems = append(problems, fmt.Sprintf("row %s: %q has no column in the table", r.Key, foreign))
	}
	if slices.Contains(texts, "") {
		problems = append(problems, "row "+r.Key+" says nothing")
	}
	if strings.ContainsAny(fmt.Sprint(r), "|\n") {
		problems = append(problems, "row "+r.Key+": a table has no place for a bar or a line break")
	}
	return problems
}

// Check returns what is wrong between the list and the tree: commands of done points that are no
// target of the Makefile, and named tests that the sources do not have exactly once.
func (g *Guarantees) Check(makefile string, sources *Sources) []string {
	var problems []string
	for _, row := range g.rows() {
		if row.Status == Open && row.point() == "" {
			continue // a test of an open point may be still to come
		}
		if row.Status == Done && !isTarget(row.Command, makefile) {
			problems = append(problems, fmt.Sprintf("row %s: command %q is no target of the Makefile", row.Key, row.Command))
		}
		for _, name := range row.Tests {
			if _, err := sources.Find(name); err != nil {
				problems = append(problems, fmt.Sprintf("row %s: %v", row.Key, err))
			}
		}
	}
	return problems
}

func isTarget(command, makefile string) bool {
	target, isMake := strings.CutPrefix(command, "make ")
	target, _, _ = strings.Cut(target, " ") // variables may follow: make demo PROVIDER=aws
	return isMake && target != "" && strings.Contains("\n"+makefile, "\n"+target+":")
}

//go:embed *.md.tmpl
var pages embed.FS

// WritePages writes the pages that show the list.
func (g *Guarantees) WritePages(root string) error {
	templates, err := template.ParseFS(pages, "*")
	if err != nil {
		return err
	}
	for _, page := range []string{"acceptance.md", "reliability.md"} {
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, page+".tmpl", g); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, "docs", page), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
