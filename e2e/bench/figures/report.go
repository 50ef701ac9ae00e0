package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is one run.
type Report struct {
	Began time.Time `json:"began"`
	// Machine and Settings say on what and how it was taken.
	Machine  string            `json:"machine"`
	Settings []Setting         `json:"settings"`
	Rows     []Row             `json:"rows"`
	Took     map[string]string `json:"took,omitempty"`
	// Series are for plots; the tables leave them out.
	Series []Series `json:"series,omitempty"`
}

// Series is how a burst went: counts that were taken at equal intervals, of pods that were not
// bound, nodes that were starting, and pods that were bound.
type Series struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	// Every is the interval, such as 100ms.
	Every    string `json:"every"`
	Pending  []int  `json:"podsPending"`
	Starting []int  `json:"nodesStarting"`
	Bound    []int  `json:"podsBound"`
}

// Setting is one thing that the figures depend on.
type Setting struct{ Name, Value string }

func head() []string {
	return []string{"scenario", "figure", "floor", "ours", "ratio", "target", "verdict", "note"}
}

// Markdown is the report as a page shows it.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Taken %s on %s.\n\n", r.Began.UTC().Format("2006-01-02 15:04 MST"), r.Machine)
	for _, s := range r.Settings {
		b.WriteString(item(s.Name + ": " + s.Value))
	}
	fmt.Fprintf(&b, "\n%s%s", line(head()), line([]string{"---", "---", "---", "---", "---", "---", "---", "---"}))
	for _, row := range r.Rows {
		b.WriteString(line(row.cells()))
	}
	return b.String()
}

// item is one of a list, in lines of at most pageWidth columns where words allow that.
func item(text string) string {
	var b strings.Builder
	width := 1
	b.WriteString("*")
	for _, word := range strings.Fields(text) {
		if width > 1 && width+1+len(word) > pageWidth {
			b.WriteString("\n ")
			width = 1
		}
		b.WriteString(" " + word)
		width += 1 + len(word)
	}
	return b.String() + "\n"
}

// pageWidth is the width of prose in the pages.
const pageWidth = 100

// line is one of a table. A bar or the end of a line in a cell would end it.
func line(cells []string) string {
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = strings.ReplaceAll(oneLine(c), "|", "/")
	}
	return "| " + strings.Join(safe, " | ") + " |\n"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// WriteText writes the rows as columns, for a terminal.
func (r Report) WriteText(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(head(), "\t"))
	for _, row := range r.Rows {
		cells := row.cells()
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	return columns.Flush()
}

// WriteJSON writes the report with each row's `Verdict` and ratio.
func (r Report) WriteJSON(w io.Writer) error {
	type judged struct {
		Row
		Verdict Verdict  `json:"verdict"`
		Ratio   *float64 `json:"ratio,omitempty"`
	}
	out := struct {
		Report
		Rows []judged `json:"rows"`
	}{Report: r}
	for _, row := range r.Rows {
		j := judged{Row: row, Verdict: row.Verdict()}
		if v, ok := row.Ratio(); ok {
			j.Ratio = &v
		}
		out.Rows = append(out.Rows, j)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

// Count is how many rows have the `Verdict`.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, row := range r.Rows {
		if row.Verdict() == v {
			n++
		}
	}
	return n
}
