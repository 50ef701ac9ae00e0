package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// ClockUses returns each place in the folder's own files (tests left out) that reads the clock or
// waits for it, as "file:line: time.Now". The import law cannot see this: the package time is also
// where Duration comes from. A folder that does not exist has none.
func ClockUses(folder string) ([]string, error) {
	names, err := goFiles(folder)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		uses, err := clockUsesIn(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		found = append(found, uses...)
	}
	return found, nil
}

func clockUsesIn(file string) ([]string, error) {
	positions := token.NewFileSet()
	tree, err := parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := importedAs(tree, "time")
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !isIdent(selector.X, local) || !readsClock(selector.Sel.Name) {
			return true
		}
		at := positions.Position(selector.Pos())
		found = append(found, fmt.Sprintf("%s:%d: time.%s", at.Filename, at.Line, selector.Sel.Name))
		return true
	})
	return found, nil
}

func readsClock(function string) bool {
	switch function {
	case "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep":
		return true
	}
	return false
}

// importedAs returns the name by which the file knows the package, "" when it does not import it.
func importedAs(tree *ast.File, importPath string) string {
	for _, spec := range tree.Imports {
		if spec.Path.Value != `"`+importPath+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return importPath
	}
	return ""
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && name != "" && ident.Name == name
}

// goFiles returns the names of the Go files in the folder, nothing when there is no such folder.
func goFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && strings.HasSuffix(entry.Name(), ".go") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
