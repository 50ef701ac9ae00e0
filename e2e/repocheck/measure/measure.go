package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits that functions and lines are counted against.
const (
	longFunction   = 60
	muchComplexity = 15
	columns        = 120
	commentColumns = 100
)

// measures are the figures of one tree.
type measures struct {
	// code, comment and test are lines. A line with both code and a comment is code.
	code, comment, test int
	// files and functions are lengths in lines, sorted.
	files, functions []int
	// complex is how many functions are above muchComplexity, long above longFunction.
	complex, long int
	// wide is how many lines of the product have more than columns, wideComments how many comments
	// more than commentColumns.
	wide, wideComments int
	packages           int
}

// productRoots are the folders of the product, seen from the root of the repository.
func productRoots() []string {
	return []string{"cmd", "crds", "extender", "provider", "scaler", "stacks", "webhook"}
}

// simulators are left out: they are tools of the tests.
func simulators() []string {
	return []string{"provider/aws/ec2test", "provider/fake", "provider/providertest", "provider/simcloud"}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// measureTree reads all Go files of the product below root, and the tests beside them.
func measureTree(root string) (measures, error) {
	m, packages := measures{}, map[string]bool{}
	visit := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil || generated.Match(text) || isSimulator(filepath.ToSlash(below)) {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			code, _, _ := lines(text)
			m.test += code
			return nil
		}
		packages[filepath.Dir(below)] = true
		return m.take(path, text)
	}
	for _, folder := range productRoots() {
		if _, err := os.Stat(filepath.Join(root, folder)); os.IsNotExist(err) {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(root, folder), visit); err != nil {
			return m, err
		}
	}
	m.packages = len(packages)
	slices.Sort(m.files)
	slices.Sort(m.functions)
	return m, nil
}

func isSimulator(path string) bool {
	return slices.ContainsFunc(simulators(), func(s string) bool { return strings.HasPrefix(path, s+"/") })
}

// take adds a file of the product.
func (m *measures) take(path string, text []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	code, comment, total := lines(text)
	m.code, m.comment, m.files = m.code+code, m.comment+comment, append(m.files, total)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		width := utf8.RuneCountInString(line)
		if width > columns {
			m.wide++
		}
		if width > commentColumns && strings.HasPrefix(strings.TrimSpace(line), "//") {
			m.wideComments++
		}
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		length := set.Position(function.End()).Line - set.Position(function.Pos()).Line + 1
		m.functions = append(m.functions, length)
		if length > longFunction {
			m.long++
		}
		if complexity(function) > muchComplexity {
			m.complex++
		}
	}
	return nil
}

// lines counts the lines of code, those of comments alone, and all lines that are not empty.
func lines(text []byte) (code, comment, total int) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	isCode, isComment := map[int]bool{}, map[int]bool{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own
		}
		first := file.Line(at)
		for line := first; line <= first+strings.Count(literal, "\n"); line++ {
			if kind == token.COMMENT {
				isComment[line] = true
			} else {
				isCode[line] = true
			}
		}
	}
	for line := range isComment {
		if !isCode[line] {
			comment++
		}
	}
	return len(isCode), comment, strings.Count(string(text), "\n")
}

// complexity is the cyclomatic complexity as gocyclo counts it: one, and one for each branch.
func complexity(function *ast.FuncDecl) int {
	n := 1
	ast.Inspect(function, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// at is the value below which that share of the sorted values lies.
func at(sorted []int, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// row is the figures as a row of the table.
func (m measures) row(name string) string {
	share := func(n, of int) string { return fmt.Sprintf("%.2f", float64(n)/float64(max(of, 1))) }
	percent := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
	sum := 0
	for _, n := range m.files {
		sum += n
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %d/%d/%d | %d/%d/%d/%d | %d | %d | %s | %s | %d |", name,
		m.code, share(m.comment, m.code), share(m.test, m.code),
		at(m.files, 50), at(m.files, 90), at(m.files, 100),
		at(m.functions, 50), at(m.functions, 90), at(m.functions, 99), at(m.functions, 100),
		m.long, m.complex, percent(m.wide, sum), percent(m.wideComments, m.comment), m.packages)
}
