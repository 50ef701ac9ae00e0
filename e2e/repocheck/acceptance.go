package repocheck

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Status of an acceptance point.
type Status string

// Open points name no test to rely on; of Done points every named test exists, cannot
// be skipped and ran.
const (
	Open Status = "open"
	Done Status = "done"
)

// Row is one acceptance point of one issue, a line of a table in docs/acceptance.md.
type Row struct {
	Line    int
	Issue   int
	Point   int
	What    string
	Status  Status
	Command string
	Tests   []TestName
}

// TestName is a test as the table writes it: TestX, TestX/subtest, and with its folder in front
// (extender/fit/TestX) where the name alone is not unique.
type TestName string

var testStart = regexp.MustCompile(`(^|/)(Test|Fuzz)[A-Z0-9_]`)

// Split returns the folder ("" when none is given), the function and the subtest path ("" when none
// is given). The function is "" when the name contains none.
func (n TestName) Split() (folder, function, subtest string) {
	at := testStart.FindStringIndex(string(n))
	if at == nil {
		return string(n), "", ""
	}
	folder = string(n[:at[0]])
	rest := strings.TrimPrefix(string(n[at[0]:]), "/")
	function, subtest, _ = strings.Cut(rest, "/")
	return folder, function, subtest
}

// ReadRows reads the tables of an acceptance file. A line that looks like a row and is none is an
// error: it would otherwise drop out of every check.
func ReadRows(file string) ([]Row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseRows(string(text))
}

const columns = 6

func parseRows(text string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := splitCells(line)
		if cells[0] == "issue" || strings.Trim(cells[0], "-:") == "" {
			continue // the heading of a table and the line below it
		}
		row, err := parseRow(cells)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		row.Line = i + 1
		rows = append(rows, row)
	}
	return rows, nil
}

func splitCells(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func parseRow(cells []string) (Row, error) {
	if len(cells) != columns {
		return Row{}, fmt.Errorf("%d columns, want issue, point, what, status, command, tests", len(cells))
	}
	issue, err := strconv.Atoi(cells[0])
	if err != nil {
		return Row{}, fmt.Errorf("issue: %w", err)
	}
	point, err := strconv.Atoi(cells[1])
	if err != nil {
		return Row{}, fmt.Errorf("point: %w", err)
	}
	status := Status(cells[3])
	if status != Open && status != Done {
		return Row{}, fmt.Errorf("status %q, want %s or %s", status, Open, Done)
	}
	return Row{
		Issue: issue, Point: point, What: cells[2], Status: status,
		Command: strings.Trim(cells[4], "`"), Tests: parseTests(cells[5]),
	}, nil
}

// parseTests takes what stands between backticks, so that words may stand beside the names.
func parseTests(cell string) []TestName {
	var names []TestName
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			names = append(names, TestName(part))
		}
	}
	return names
}

// CheckRows returns what is wrong with the rows themselves: points missing or doubled, done rows
// without command or test, commands that are no target of the Makefile, and named tests that the
// sources do not have exactly once.
func CheckRows(rows []Row, makefile string, sources *Sources) []string {
	problems := checkNumbering(rows)
	for _, row := range rows {
		for _, problem := range checkRow(row, makefile, sources) {
			problems = append(problems, fmt.Sprintf("line %d, point %d.%d: %s", row.Line, row.Issue, row.Point, problem))
		}
	}
	return problems
}

// checkNumbering wants the points of each issue to run 1, 2, 3, ... in the file's own order.
func checkNumbering(rows []Row) []string {
	var problems []string
	last := map[int]int{}
	for _, row := range rows {
		if want := last[row.Issue] + 1; row.Point != want {
			problems = append(problems, fmt.Sprintf("line %d: issue %d has point %d where %d is due", row.Line, row.Issue,
				row.Point, want))
		}
		last[row.Issue] = row.Point
	}
	return problems
}

func checkRow(row Row, makefile string, sources *Sources) []string {
	if row.Status != Done {
		return nil
	}
	var problems []string
	if !isTarget(row.Command, makefile) {
		problems = append(problems, fmt.Sprintf("command %q is no target of the Makefile", row.Command))
	}
	if len(row.Tests) == 0 {
		problems = append(problems, "done, but names no test")
	}
	for _, name := range row.Tests {
		if _, err := sources.Find(name); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

func isTarget(command, makefile string) bool {
	target, isMake := strings.CutPrefix(command, "make ")
	target, _, _ = strings.Cut(target, " ") // variables may follow: make demo PROVIDER=aws
	return isMake && target != "" && slices.ContainsFunc(strings.Split(makefile, "\n"), func(line string) bool {
		return strings.HasPrefix(line, target+":")
	})
}
