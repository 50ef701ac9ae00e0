// Package top draws a live view of pools, of starts that are under way, and of pending pods. It
// knows neither the API nor the cluster: it draws what it is given.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Data is what is drawn.
type Data struct {
	// Context is the name of the kubeconfig's context.
	Context string
	Now     time.Time
	Pools   []Pool
	Starts  []Start
	Pods    []Pod
	// Problem is what keeps the view from being complete and up to date, "" for nothing.
	Problem string
}

// Pool is one of the pools, with its nodes by state.
type Pool struct {
	Name, Status                                    string
	Running, Starting, Standby, Warmup, Other, Size int32
	// Cost of its nodes per hour; Currency is "" where that is not known.
	Cost     float64
	Currency string
}

// Start is a node that starts.
type Start struct {
	Node, Pool string
	Since      time.Time
	// Usual is how long half of the last starts of the pool took at most; 0 where it is not known.
	Usual time.Duration
}

// Pod is a pending pod.
type Pod struct {
	Name, Cause, Why string
	Since            time.Time
}

// choice is what the user chose by keys.
type choice struct {
	sort   int
	filter string
	// typing: the filter is being typed.
	typing bool
}

// order is one of those of the pools.
type order struct {
	name    string
	compare func(a, b Pool) int
}

// orders are those that the key s goes through.
func orders() []order {
	return []order{
		{"name", func(Pool, Pool) int { return 0 }},
		{"status", func(a, b Pool) int { return healthy(a) - healthy(b) }},
		{"standby", func(a, b Pool) int { return cmp.Compare(a.Standby, b.Standby) }},
		{"running", func(a, b Pool) int { return cmp.Compare(b.Running, a.Running) }},
		{"cost", func(a, b Pool) int { return cmp.Compare(b.Cost, a.Cost) }},
	}
}

// healthy is greater for a pool with which nothing is wrong.
func healthy(p Pool) int {
	if p.Status == "Ready" {
		return 1
	}
	return 0
}

// section is a table with its title row.
type section struct {
	title string
	rows  []string
	// shown is how many of its lines are drawn, without the title.
	shown int
}

// draw returns the lines of the screen, none wider than the width and no more than the height.
func draw(d *Data, c choice, width, height int) []string {
	sections := []*section{pools(d, c, width), starts(d, c, width), pods(d, c, width)}
	head := []string{
		between("kubectl stratos top  "+d.Context, d.Now.UTC().Format(time.TimeOnly)+"Z", width),
		cut(legend(d.Pools), width),
	}
	if total := cost(d.Pools); total != "" {
		head = append(head, cut(total, width))
	}
	if d.Problem != "" {
		head = append(head, cut("! "+d.Problem, width))
	}
	share(sections, height-len(head)-1-2*len(sections)) // less the keys, and two lines for each section
	lines := head
	for _, s := range sections {
		lines = append(lines, "", bold(cut(s.title, width)))
		lines = append(lines, s.lines(width)...)
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = lines[:max(0, height-1)]
	return append(lines, cut(keys(c), width))
}

// share gives the sections their lines: each as many as it needs, where all have room, else what
// the others leave, and at least its part.
func share(sections []*section, room int) {
	left := slices.Clone(sections)
	slices.SortStableFunc(left, func(a, b *section) int { return len(a.rows) - len(b.rows) })
	for i, s := range left {
		s.shown = max(0, min(len(s.rows), room/(len(left)-i)))
		room -= s.shown
	}
}

// lines are the rows that are drawn; the last says how many are not.
func (s *section) lines(width int) []string {
	if s.shown == len(s.rows) || s.shown == 0 {
		return s.rows[:s.shown]
	}
	return append(slices.Clone(s.rows[:s.shown-1]), cut(fmt.Sprintf("and %d more", len(s.rows)-s.shown+1), width))
}

func keys(c choice) string {
	if c.typing {
		return "filter: " + c.filter + "_  (Enter keeps it, Esc clears it)"
	}
	return fmt.Sprintf("s sort: %s   / filter: %s   q quit", orders()[c.sort].name, cmp.Or(c.filter, "none"))
}

// The widths of columns of numbers and times.
const (
	numbers = 8
	times   = 7
)

func pools(d *Data, c choice, width int) *section {
	all := slices.DeleteFunc(slices.Clone(d.Pools), func(p Pool) bool { return !strings.Contains(p.Name, c.filter) })
	slices.SortFunc(all, func(a, b Pool) int {
		return cmp.Or(orders()[c.sort].compare(a, b), strings.Compare(a.Name, b.Name))
	})
	name, status := width/5, width/7
	row := func(n, s string, cells ...any) string {
		line := pad(n, name) + " " + pad(s, status)
		for _, cell := range cells {
			line += fmt.Sprintf(" %*v", numbers, cell)
		}
		return line + "  "
	}
	titles := []any{"RUNNING", "STARTING", "STANDBY", "SIZE"}
	withCost := cost(d.Pools) != ""
	if withCost {
		titles = append(titles, "COST/H")
	}
	s := &section{title: row(counted("POOL", len(all)), "STATUS", titles...) + "NODES"}
	bars := width - len(s.title) + len("NODES")
	for _, p := range all {
		size := fmt.Sprintf("%d/%d", p.total(), p.Size)
		cells := []any{p.Running, p.Starting, p.Standby, size}
		if withCost {
			cells = append(cells, costCell(p))
		}
		s.rows = append(s.rows, cut(row(p.Name, p.Status, cells...), width)+bar(p, bars))
	}
	return s
}

func starts(d *Data, c choice, width int) *section {
	all := slices.DeleteFunc(slices.Clone(d.Starts), func(s Start) bool { return !strings.Contains(s.Pool, c.filter) })
	slices.SortFunc(all, func(a, b Start) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Node, b.Node)) })
	name, pool := width/3, width/5
	row := func(n, p, elapsed, usual string) string {
		return pad(n, name) + " " + pad(p, pool) + fmt.Sprintf(" %*s %*s  ", times, elapsed, times, usual)
	}
	s := &section{title: row(counted("START", len(all)), "POOL", "FOR", "USUAL")}
	for _, one := range all {
		usual, elapsed := "-", d.Now.Sub(one.Since)
		if one.Usual > 0 {
			usual = age(one.Usual)
		}
		line := cut(row(one.Node, one.Pool, age(elapsed), usual), width)
		s.rows = append(s.rows, line+progress(elapsed, one.Usual, width-len([]rune(line))))
	}
	return s
}

func pods(d *Data, c choice, width int) *section {
	all := slices.DeleteFunc(slices.Clone(d.Pods), func(p Pod) bool {
		return !strings.Contains(p.Name, c.filter) && !strings.Contains(p.Why, c.filter)
	})
	slices.SortFunc(all, func(a, b Pod) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name)) })
	name, cause := width*3/10, width*3/20
	row := func(n, c, since, why string) string {
		return cut(pad(n, name)+" "+pad(c, cause)+fmt.Sprintf(" %*s  ", times, since)+why, width)
	}
	s := &section{title: row(counted("PENDING POD", len(all)), "CAUSE", "FOR", "WHY")}
	for _, p := range all {
		s.rows = append(s.rows, row(p.Name, p.Cause, age(d.Now.Sub(p.Since)), p.Why))
	}
	return s
}

// counted is the title of the first column.
func counted(title string, n int) string { return fmt.Sprintf("%s (%d)", title, n) }

func age(d time.Duration) string { return duration.HumanDuration(max(0, d)) }

// pad makes the text as wide as the column.
func pad(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", width-len([]rune(text)))
}

// cut shortens the text to the width. The text has characters of one column only.
func cut(text string, width int) string {
	runes := []rune(text)
	switch {
	case len(runes) <= width:
		return text
	case width < 2:
		return string(runes[:max(0, width)])
	}
	return string(runes[:width-1]) + "…"
}

// between puts one text at the left end of the line and one at the right.
func between(left, right string, width int) string {
	return pad(left, max(0, width-len([]rune(right))-1)) + " " + cut(right, max(0, width-1))
}
