package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Sources knows the test functions of a tree and every place where a test could skip itself.
type Sources struct {
	tests map[string][]TestFunction
	// declared is by folder.
	declared map[string]declarations
	// Skips are the places, as "file:line: t.Skip", where a test, fuzz target or benchmark can end
	// without a result.
	Skips []string
}

// TestFunction is one TestX or FuzzX. Folder is relative to the tree's root, with slashes.
type TestFunction struct{ Folder, Name string }

// ReadSources parses every Go file below root.
func ReadSources(root string) (*Sources, error) {
	sources := &Sources{tests: map[string][]TestFunction{}, declared: map[string]declarations{}}
	return sources, eachFile(root, func(file string) error {
		if path.Ext(file) != ".go" {
			return nil
		}
		positions := token.NewFileSet()
		tree, err := parser.ParseFile(positions, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		sources.add(file, tree, positions)
		return nil
	})
}

func (s *Sources) add(file string, tree *ast.File, positions *token.FileSet) {
	s.Skips = append(s.Skips, skipsIn(file, tree, positions)...)
	folder := path.Dir(file)
	if s.declared[folder] == nil {
		s.declared[folder] = declarations{}
	}
	for _, decl := range tree.Decls {
		s.declared[folder].add(decl)
		if f, ok := decl.(*ast.FuncDecl); ok && isTest(f) && strings.HasSuffix(file, "_test.go") {
			s.tests[f.Name.Name] = append(s.tests[f.Name.Name], TestFunction{folder, f.Name.Name})
		}
	}
}

// isTest reports whether a function of a test file is a test or fuzz target; the go command holds
// its parameters to that. A body without statements proves nothing and does not count.
func isTest(f *ast.FuncDecl) bool {
	_, function, _ := TestName(f.Name.Name).Split()
	return function != "" && function != "TestMain" && f.Recv == nil && f.Body != nil && len(f.Body.List) > 0
}

// skipsIn looks for Skip, Skipf, SkipNow and testing.Short in a file that imports testing.
func skipsIn(file string, tree *ast.File, positions *token.FileSet) []string {
	testing := importedAs(tree, "testing")
	if testing == "" {
		return nil
	}
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch name := selector.Sel.Name; {
		case name == "Skip", name == "Skipf", name == "SkipNow", name == "Short" && isIdent(selector.X, testing):
			line := positions.Position(n.Pos()).Line
			found = append(found, fmt.Sprintf("%s:%d: %s.%s", file, line, lastName(selector.X), name))
		}
		return true
	})
	return found
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// declarations are the functions, methods, variables and constants of one folder by name. Two
// methods of one name fall together: that finds too many literals rather than too few, and the run
// itself has the last word.
type declarations map[string][]ast.Node

func (d declarations) add(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		d[decl.Name.Name] = append(d[decl.Name.Name], decl)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range values.Names {
					d[name.Name] = append(d[name.Name], values)
				}
			}
		}
	}
}

// literals returns the string literals, as subtest names are written, of the function and of all it
// leads to.
func (d declarations) literals(function string) map[string]bool {
	found, seen := map[string]bool{}, map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, node := range d[name] {
			ast.Inspect(node, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						found[subtestName(text)] = true
					}
				case *ast.Ident:
					visit(n.Name)
				}
				return true
			})
		}
	}
	visit(function)
	return found
}

// subtestName writes a name as the testing package does: each white space becomes an underscore.
func subtestName(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, text)
}

// Find returns the one function that the name means. The error says when there is none, more than
// one, or when no string in reach of the function could name the subtest.
func (s *Sources) Find(name TestName) (TestFunction, error) {
	folder, function, subtest := name.Split()
	candidates := slices.DeleteFunc(slices.Clone(s.tests[function]), func(t TestFunction) bool {
		return folder != "" && t.Folder != folder
	})
	if len(candidates) == 0 {
		return TestFunction{}, fmt.Errorf("test %s does not exist", name)
	}
	if len(candidates) > 1 {
		return TestFunction{}, fmt.Errorf("test %s exists in %s and in %s: write its folder in front", name,
			candidates[0].Folder, candidates[1].Folder)
	}
	found := candidates[0]
	if subtest != "" && !hasSubtest(s.declared[found.Folder].literals(function), subtest) {
		return TestFunction{}, fmt.Errorf("test %s: no string in %s names the subtest", name, function)
	}
	return found, nil
}

// hasSubtest also takes a path of several names, each of which must be visible.
func hasSubtest(literals map[string]bool, subtest string) bool {
	if literals[subtestName(subtest)] {
		return true
	}
	first, rest, nested := strings.Cut(subtest, "/")
	return nested && literals[subtestName(first)] && hasSubtest(literals, rest)
}
