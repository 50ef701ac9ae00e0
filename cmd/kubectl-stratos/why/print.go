package why

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// none stands in a cell for what is not there or not known.
const none = "-"

// Table is a row for each pod. Cells of the columns with priority 1 are for a wide output.
func Table(all []Explanation, now time.Time, withNamespace bool) *metav1.Table {
	table := &metav1.Table{}
	column := func(name string, priority int32) {
		table.ColumnDefinitions = append(table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority})
	}
	if withNamespace {
		column("Namespace", 0)
	}
	for _, name := range []string{"Pod", "Pending", "Cause", "Node", "State", "Why"} {
		column(name, 0)
	}
	for _, name := range []string{"Pool", "Scheduler", "Next"} {
		column(name, 1)
	}
	for i := range all {
		e := &all[i]
		node := e.Node
		if node == nil {
			node = &NodeFacts{}
		}
		var cells []any
		if withNamespace {
			cells = append(cells, e.Namespace)
		}
		cells = append(cells, e.Pod, age(now, e.Since), string(e.Cause), cmp.Or(node.Name, none),
			cmp.Or(string(node.State), none), cmp.Or(e.InOneLine(now), none),
			cmp.Or(string(node.Pool), none), e.Scheduler, e.Next)
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

// InOneLine is what is known of the node, else the reason of the pool that came closest.
func (e *Explanation) InOneLine(now time.Time) string {
	switch {
	case e.Node != nil && e.Node.Since != nil:
		return e.Node.timing(now)
	case len(e.Reasons) > 1:
		return fmt.Sprintf("%s; and %d more", e.Reasons[0], len(e.Reasons)-1)
	}
	return strings.Join(e.Reasons, "")
}

// ofPool is a reason that holds for one pool.
var ofPool = regexp.MustCompile(`^pool (\S+): (.*)$`)

// together joins the reasons of pools that are alike: most pools of a cluster are not meant for the
// pod.
func together(reasons []string) []string {
	pools := map[string][]string{}
	for _, r := range reasons {
		if words := ofPool.FindStringSubmatch(r); words != nil {
			pools[words[2]] = append(pools[words[2]], words[1])
		}
	}
	var out []string
	for _, r := range reasons {
		words := ofPool.FindStringSubmatch(r)
		if words == nil {
			out = append(out, r)
			continue
		}
		switch alike := pools[words[2]]; {
		case len(alike) == 1:
			out = append(out, r)
		case alike[0] == words[1]:
			out = append(out, fmt.Sprintf("%d pools (%s): %s", len(alike), strings.Join(alike, ", "), words[2]))
		}
	}
	return out
}

// timing says since when the node is in its state, how long that usually takes, and when it is
// given up.
func (n *NodeFacts) timing(now time.Time) string {
	text := fmt.Sprintf("%s for %s", n.State, age(now, *n.Since))
	if n.UsualSeconds > 0 {
		text += fmt.Sprintf(", usually %ds", n.UsualSeconds)
	}
	if n.Deadline != nil {
		text += ", given up at " + n.Deadline.UTC().Format(time.RFC3339)
	}
	return text
}

// Describe writes what is known of one pod, a line for each fact.
func (e *Explanation) Describe(out io.Writer, now time.Time) error {
	lines := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(lines, "%s:\t%s\n", name, text)
		}
	}
	line("Pod", e.Namespace+"/"+e.Pod)
	line("Cause", string(e.Cause))
	line("Since", e.Since.UTC().Format(time.RFC3339)+" ("+age(now, e.Since)+")")
	line("Scheduler", e.Scheduler)
	if e.Asked {
		line("Stratos", "has looked at it")
	}
	if n := e.Node; n != nil {
		line("Node", n.Name)
		line("Pool", string(n.Pool))
		line("State", string(n.State))
		if n.Since != nil {
			line("Timing", n.timing(now))
		}
	}
	for i, reason := range together(e.Reasons) {
		name := ""
		if i == 0 {
			name = "Why:"
		}
		fmt.Fprintf(lines, "%s\t%s\n", name, reason)
	}
	line("Next", e.Next)
	return lines.Flush()
}

// PrintMissing says which permissions the user lacks; nothing where none.
func (f *Facts) PrintMissing(out io.Writer) {
	if missing := f.WhatIsMissing(); missing != "" {
		fmt.Fprintln(out, missing)
	}
}

// WhatIsMissing names the permissions that the user lacks; "" where none.
func (f *Facts) WhatIsMissing() string {
	if len(f.Missing) == 0 {
		return ""
	}
	return "You may not " + strings.Join(f.Missing, ", or ") + ": what that would show is left out."
}

// age is the time since then as kubectl words it.
func age(now time.Time, since metav1.Time) string { return duration.HumanDuration(now.Sub(since.Time)) }
