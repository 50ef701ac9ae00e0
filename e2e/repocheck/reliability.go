package repocheck

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// reliabilityLines are the lines of the project's failure list, which is not in the repository, in
// its order.
func reliabilityLines() []string {
	return strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 " +
		"20 21 22 23 24 24a 24b 25 26 27 28 29 30 30a 31 32 33 34 35 36 37 38a 38b 38 " +
		"40 41 42 42a 42b 43 44 45 46 47 48 K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K11 " +
		"F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15 F16 F17 F18 F19 F20 F21 " +
		"C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15")
}

// promise is a line of docs/reliability.md.
type promise struct {
	line, does, status string
	tests              []TestName
}

var lineNumber = regexp.MustCompile(`^\| ([CFK]?[0-9]+[ab]?) \|`)

// readPromises reads the tables of docs/reliability.md.
func readPromises(file string) ([]promise, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []promise
	for line := range strings.Lines(string(text)) {
		if !lineNumber.MatchString(line) {
			continue
		}
		cells := splitCells(line)
		if len(cells) != 5 {
			return nil, fmt.Errorf("line %s: %d columns, want line, fault, Stratos, status, tests", cells[0], len(cells))
		}
		out = append(out, promise{line: cells[0], does: cells[2], status: cells[3], tests: parseTests(cells[4])})
	}
	return out, nil
}

// checkPromises returns what is wrong: lines that are missing, doubled or out of order, unknown
// states, tests that are not there.
func checkPromises(promises []promise, sources *Sources) []string {
	var problems, lines []string
	for _, p := range promises {
		lines = append(lines, p.line)
		if !slices.Contains([]string{"tested", "limit", "EC2", "open"}, p.status) {
			problems = append(problems, fmt.Sprintf("line %s: status %q, want tested, limit, EC2 or open", p.line, p.status))
		}
		if p.status == "tested" && len(p.tests) == 0 {
			problems = append(problems, fmt.Sprintf("line %s: tested, but names no test", p.line))
		}
		if p.does == "" {
			problems = append(problems, fmt.Sprintf("line %s does not say what Stratos does", p.line))
		}
		for _, name := range p.tests {
			if _, err := sources.Find(name); err != nil {
				problems = append(problems, fmt.Sprintf("line %s: %v", p.line, err))
			}
		}
	}
	if !slices.Equal(lines, reliabilityLines()) {
		problems = append(problems, fmt.Sprintf("lines are %v, want %v", lines, reliabilityLines()))
	}
	return problems
}
