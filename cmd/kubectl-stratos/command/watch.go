package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
)

// together bounds how often a view is looked at: several changes usually come at once.
const together = 500 * time.Millisecond

// addWatchFlag adds the flag -w.
func (o *output) addWatchFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on and print each row that is new or has changed")
}

// watched is a table whose rows are compared with what was printed before.
type watched struct {
	*metav1.Table
	// names and signs of the rows: a row is printed again when its sign is another. Ages, which change
	// without an event, are no part of it.
	names, signs []string
}

// watch prints the view's rows that are new or have changed, until the context ends. gone is the
// row of one that is there no longer.
func (s *shared) watch(ctx context.Context, o *output, lists *follow.Lists, view func() watched,
	gone func(name string) []any) error {
	// A tab writer that remembers how wide the columns were.
	out := printers.GetNewTabWriter(s.Out)
	printed := map[string]string{}
	failed := ""
	options := printers.PrintOptions{Wide: o.format == wide, NoHeaders: o.noHeaders}
	for {
		now := view()
		rows := now.changed(printed)
		for _, name := range now.left(printed) {
			rows = append(rows, metav1.TableRow{Cells: gone(name)})
			delete(printed, name)
		}
		if len(rows) > 0 {
			table := &metav1.Table{ColumnDefinitions: now.ColumnDefinitions, Rows: rows}
			if err := printers.NewTablePrinter(options).PrintObj(table, out); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			options.NoHeaders = true
		}
		failed = s.tell(lists.Err(), failed)
		if !wait(ctx, lists) {
			return nil
		}
	}
}

// tell says once what keeps the view from being up to date.
func (s *shared) tell(err error, before string) string {
	if err == nil {
		return ""
	}
	if words := Words(err); words != before {
		fmt.Fprintln(s.ErrOut, words)
		return words
	}
	return before
}

// wait waits for the next changes. It returns false when the context has ended.
func wait(ctx context.Context, lists *follow.Lists) bool {
	select {
	case <-ctx.Done():
		return false
	case <-lists.Changed():
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(together):
		return true
	}
}

// changed are the rows that are new or have another sign, which it notes.
func (w *watched) changed(printed map[string]string) []metav1.TableRow {
	var rows []metav1.TableRow
	for i, name := range w.names {
		if sign, is := printed[name]; is && sign == w.signs[i] {
			continue
		}
		printed[name] = w.signs[i]
		rows = append(rows, w.Rows[i])
	}
	return rows
}

// left are the names that were printed and are there no longer, sorted.
func (w *watched) left(printed map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		if !slices.Contains(w.names, name) {
			names = append(names, name)
		}
	}
	return names
}

// signsOf makes the sign of each row from its cells, but for those of the columns with ages.
func signsOf(table *metav1.Table, ages ...string) []string {
	signs := make([]string, len(table.Rows))
	for i := range table.Rows {
		var cells []string
		for c, cell := range table.Rows[i].Cells {
			if !slices.Contains(ages, table.ColumnDefinitions[c].Name) {
				cells = append(cells, fmt.Sprint(cell))
			}
		}
		signs[i] = strings.Join(cells, "\x00")
	}
	return signs
}

// goneRow returns the function for a row of which only the name is left: the columns are first the
// name, then where it belongs, and the state at the index.
func goneRow(columns, state int, word string) func(string) []any {
	return func(name string) []any {
		cells := make([]any, columns)
		for i := range cells {
			cells[i] = none
		}
		cells[0], cells[state] = name, word
		return cells
	}
}
