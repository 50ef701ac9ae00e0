// Command measure prints the measures of the product, or writes them into docs/measures.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	name := flag.String("name", "today", "the row's first column")
	write := flag.Bool("write", false, "replace the row of that name in docs/measures.md")
	flag.Parse()
	if err := run(os.Stdout, *root, *name, *write); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root, name string, write bool) error {
	m, err := measureTree(root)
	if err != nil {
		return err
	}
	row := m.row(name)
	fmt.Fprintln(out, row)
	if !write {
		return nil
	}
	page := filepath.Join(root, "docs", "measures.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	replaced, err := replaceRow(string(text), name, row)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(replaced), 0o644) //nolint:gosec // a page for everybody
}

// replaceRow puts the row in the place of the one that begins with the name.
func replaceRow(page, name, row string) (string, error) {
	var out strings.Builder
	found := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| "+name+" |") {
			line, found = row+"\n", true
		}
		out.WriteString(line)
	}
	if !found {
		return "", fmt.Errorf("no row begins with %q", "| "+name+" |")
	}
	return out.String(), nil
}
