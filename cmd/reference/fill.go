package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// generated finds a part of a page that is generated, between two comments. The first comment says
// what stands there.
var generated = regexp.MustCompile(`(?s)(<!-- generated: ([^>]*) -->\n).*?(<!-- end of generated -->\n)`)

// writeFilled writes the page of that name as it is, with its generated parts made anew.
func writeFilled(out io.Writer, name string) error {
	page, err := os.ReadFile("docs/" + name + ".md")
	if err != nil {
		return err
	}
	text, err := fill(string(page))
	if err != nil {
		return fmt.Errorf("docs/%s.md: %w", name, err)
	}
	_, err = io.WriteString(out, text)
	return err
}

// fill makes the generated parts of a page anew.
func fill(page string) (string, error) {
	var wanted [][]string // the words of each marker
	for _, found := range generated.FindAllStringSubmatch(page, -1) {
		wanted = append(wanted, strings.Fields(found[2]))
	}
	if len(wanted) == 0 || len(wanted) != strings.Count(page, "<!-- generated: ") {
		return "", fmt.Errorf("%d parts have a beginning and an end", len(wanted))
	}
	tables, err := tablesOf(wanted)
	if err != nil {
		return "", err
	}
	at := 0
	return generated.ReplaceAllStringFunc(page, func(part string) string {
		marks := generated.FindStringSubmatch(part)
		at++
		return marks[1] + "\n" + tables[at-1] + "\n" + marks[3]
	}), nil
}

// tablesOf are the tables of a page's markers.
func tablesOf(wanted [][]string) ([]string, error) {
	tables := make([]string, len(wanted))
	for i, words := range wanted {
		var err error
		switch {
		case words[0] == "fields" && len(words) > 2:
			tables[i], err = fieldTable(words[1], words[2:], coveredBy(wanted, words[1]))
		case words[0] == "events" && len(words) == 1:
			tables[i], err = eventTable("crds/v1alpha1/conditions.go")
		case words[0] == "alerts" && len(words) == 1:
			tables[i], err = alertTable("charts/stratos/values.yaml")
		default:
			err = fmt.Errorf("nothing is known of %q", words)
		}
		if err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// coveredBy are the paths of a kind that have a table of their own on the page.
func coveredBy(wanted [][]string, kind string) map[string]bool {
	covered := map[string]bool{}
	for _, words := range wanted {
		if words[0] == "fields" && len(words) > 2 && words[1] == kind {
			for _, path := range words[2:] {
				covered[path] = true
			}
		}
	}
	return covered
}
