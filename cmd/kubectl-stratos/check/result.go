// Package check finds out what is wrong with an installation of Stratos in its cluster. Gather
// reads the API server alone, by calls that change nothing. What it returns is a value, and Cluster
// makes results of it without any I/O.
package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Status is what a check says.
type Status string

// The states of a check.
const (
	OK Status = "ok"
	// NotChecked: the answer is unknown. The words say why.
	NotChecked Status = "not checked"
	// Wrong: a user has to do something. Repair says what.
	Wrong Status = "wrong"
)

// Result is the line of one check.
type Result struct {
	// Name is the same in each run.
	Name   string
	Status Status
	Words  string
	// Repair is the command that repairs what is wrong.
	Repair string
}

// Line is the result of a check.
func Line(status Status, name, format string, args ...any) Result {
	return Result{Name: name, Status: status, Words: fmt.Sprintf(format, args...)}
}

func ok(name, format string, args ...any) Result { return Line(OK, name, format, args...) }

func notChecked(name, format string, args ...any) Result {
	return Line(NotChecked, name, format, args...)
}

func wrong(name, repair, format string, args ...any) Result {
	line := Line(Wrong, name, format, args...)
	line.Repair = repair
	return line
}

// Print writes one line for each result.
func Print(out io.Writer, results []Result) error {
	table := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	for _, r := range results {
		words := r.Words
		if r.Repair != "" {
			words += "; run: " + r.Repair
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Status, r.Name, oneLine(words))
	}
	return table.Flush()
}

// oneLine: errors of servers may have several lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// AnyWrong reports whether one of the results is Wrong.
func AnyWrong(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Status == Wrong })
}

// mostNamed bounds the objects that one line names.
const mostNamed = 3

// Several joins what is wrong with several objects.
func Several(problems []string) string {
	slices.Sort(problems)
	if more := len(problems) - mostNamed; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(problems[:mostNamed], "; "), more)
	}
	return strings.Join(problems, "; ")
}
