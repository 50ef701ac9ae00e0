// Command reference writes the pages of docs that are taken from the program itself:
// docs/metrics.md from the metrics that the parts register, docs/flags.md from the command line.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	pages := map[string]func(io.Writer) error{"metrics": writeMetrics, "flags": writeFlags}
	if len(os.Args) != 2 || pages[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "reference: name a page: metrics or flags")
		os.Exit(2)
	}
	if err := pages[os.Args[1]](os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
