package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	// Skips are the places, as "file:line: t.Skip", where a test, fuzz target or benchmark can end
	// without a result.
	Skips []string
}

// TestFunction is one TestX or FuzzX.
type TestFunction struct {
	// Folder is the package's folder relative to the tree's root, with slashes.
	Folder string
	Name   string
	// literals are the string literals of the function and of what it calls in its folder: names of
	// subtests are among them.
	literals map[string]bool
}

// ReadSources parses every Go file below root. Folders of build output, hidden ones and testdata
// are left out.
func ReadSources(root string) (*Sources, error) {
	sources := &Sources{tests: map[string][]TestFunction{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if file != root && leftOut(entry.Name()) {
			return filepath.SkipDir
		}
		folder, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return sources.readFolder(root, filepath.ToSlash(folder))
	})
	return sources, err
}

func leftOut(folder string) bool {
	return strings.HasPrefix(folder, ".") || slices.Contains([]string{"bin", "dist", "testdata", "node_modules"}, folder)
}

func (s *Sources) readFolder(root, folder string) error {
	names, err := goFiles(filepath.Join(root, folder))
	if err != nil {
		return err
	}
	functions := folderFunctions{}
	for _, name := range names {
		positions := token.NewFileSet()
		file := path.Join(folder, name)
		tree, err := parser.ParseFile(positions, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		functions.add(tree)
		s.Skips = append(s.Skips, skipsIn(file, tree, positions)...)
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && isTest(f) {
				s.tests[f.Name.Name] = append(s.tests[f.Name.Name], TestFunction{Folder: folder, Name: f.Name.Name})
			}
		}
	}
	for _, tests := range s.tests {
		for i := range tests {
			if tests[i].Folder == folder {
				tests[i].literals = functions.literals(tests[i].Name)
			}
		}
	}
	return nil
}

// isTest wants the one parameter that the go command wants; a body without statements proves
// nothing and does not count.
func isTest(f *ast.FuncDecl) bool {
	if f.Recv != nil || f.Body == nil || len(f.Body.List) == 0 || len(f.Type.Params.List) != 1 {
		return false
	}
	switch testingType(f.Type.Params.List[0].Type) {
	case "T":
		return strings.HasPrefix(f.Name.Name, "Test")
	case "F":
		return strings.HasPrefix(f.Name.Name, "Fuzz")
	}
	return false
}

// testingType returns T, B, F or TB for a parameter of such a type of package testing, "" for any
// other.
func testingType(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || !isIdent(selector.X, "testing") {
		return ""
	}
	return selector.Sel.Name
}

// skipsIn looks for Skip, Skipf, SkipNow and testing.Short in a file that imports testing. What is
// called t, b, f or tb counts as a test even when the type is not visible here; a decoder's Skip
// does not.
func skipsIn(file string, tree *ast.File, positions *token.FileSet) []string {
	if importedAs(tree, "testing") == "" {
		return nil
	}
	tests := map[string]bool{"t": true, "tb": true, "b": true, "f": true}
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if slices.Contains([]string{"T", "B", "F", "TB"}, testingType(n.Type)) {
				for _, name := range n.Names {
					tests[name.Name] = true
				}
			}
		case *ast.SelectorExpr:
			if isSkip(n, tests) {
				at := positions.Position(n.Pos())
				found = append(found, fmt.Sprintf("%s:%d: %s.%s", file, at.Line, lastName(n.X), n.Sel.Name))
			}
		}
		return true
	})
	return found
}

func isSkip(selector *ast.SelectorExpr, tests map[string]bool) bool {
	switch selector.Sel.Name {
	case "Skip", "Skipf", "SkipNow":
		return tests[strings.ToLower(lastName(selector.X))] || tests[lastName(selector.X)]
	case "Short":
		return isIdent(selector.X, "testing")
	}
	return false
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

// folderFunctions are the functions, methods and package-level declarations of one folder by name.
// Two methods of one name fall together: that finds too many literals rather than too few, and the
// run itself has the last word.
type folderFunctions map[string][]ast.Node

func (f folderFunctions) add(tree *ast.File) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			f[decl.Name.Name] = append(f[decl.Name.Name], decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						f[name.Name] = append(f[name.Name], values)
					}
				}
			}
		}
	}
}

// literals returns the string literals, as subtest names are written, of the function and of all it
// leads to.
func (f folderFunctions) literals(function string) map[string]bool {
	found := map[string]bool{}
	seen := map[string]bool{function: true}
	queue := []string{function}
	for len(queue) > 0 {
		nodes := f[queue[0]]
		queue = queue[1:]
		for _, node := range nodes {
			ast.Inspect(node, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						found[subtestName(text)] = true
					}
				case *ast.Ident:
					if !seen[n.Name] {
						seen[n.Name] = true
						queue = append(queue, n.Name)
					}
				}
				return true
			})
		}
	}
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
	if subtest != "" && !found.hasSubtest(subtest) {
		return TestFunction{}, fmt.Errorf("test %s: no string in %s names the subtest", name, function)
	}
	return found, nil
}

// hasSubtest also takes a path of several names, each of which must be visible.
func (t TestFunction) hasSubtest(subtest string) bool {
	if t.literals[subtestName(subtest)] {
		return true
	}
	first, rest, nested := strings.Cut(subtest, "/")
	return nested && t.literals[subtestName(first)] && t.hasSubtest(rest)
}
