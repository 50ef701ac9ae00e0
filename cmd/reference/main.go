// Command reference writes the pages of docs that are taken from the program itself: metrics from
// what the parts register, flags from the command line; and the generated parts of other pages:
// fields (api) from the definitions, events (names) from the comments of their reasons, alerts from
// the chart's values.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	pages := map[string]func(io.Writer) error{"metrics": writeMetrics, "flags": writeFlags}
	for _, name := range []string{"api", "names", "alerts"} {
		pages[name] = func(out io.Writer) error { return writeFilled(out, name) }
	}
	if len(os.Args) != 2 || pages[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "reference: name a page: metrics, flags, api, names or alerts")
		os.Exit(2)
	}
	if err := pages[os.Args[1]](os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
