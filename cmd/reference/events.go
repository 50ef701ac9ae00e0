package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// eventReason is a reason of events, as its comment describes it.
type eventReason struct{ constant, reason, kind, on, meaning string }

// eventComment is how the comment of a constant begins whose reason events have:
// "ReasonX (Normal, on Pods): what it means".
var eventComment = regexp.MustCompile(`^\w+ \((Normal|Warning), on ([^)]+)\): (?s:(.+))$`)

// eventTable has the reasons of events in the order of the file.
func eventTable(file string) (string, error) {
	list, err := eventReasons(file)
	if err != nil {
		return "", err
	}
	var table bytes.Buffer
	table.WriteString("| reason | type | on | meaning |\n|---|---|---|---|\n")
	for _, e := range list {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", e.reason, e.kind, e.on, e.meaning)
	}
	return table.String(), nil
}

// eventReasons reads the constants of a file.
func eventReasons(file string) ([]eventReason, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var list []eventReason
	for _, d := range parsed.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec) // what a const declaration consists of
			found := eventComment.FindStringSubmatch(strings.TrimSpace(v.Doc.Text()))
			if found == nil {
				continue
			}
			reason, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Names[0].Name, err)
			}
			meaning := strings.ToUpper(found[3][:1]) + cell(found[3][1:])
			list = append(list, eventReason{v.Names[0].Name, reason, found[1], found[2], meaning})
		}
	}
	return list, nil
}
