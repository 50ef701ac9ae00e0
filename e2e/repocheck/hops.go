package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The most functions and files that the way of one pod may go through.
const (
	hopFunctions = 60
	hopFiles     = 20
)

// hop is a function on the way of one pod.
type hop struct {
	file, function string
	// entered: something else than a function of the way calls it.
	entered bool
}

// readHops reads the table of the section "The way of one pod".
func readHops(page string) ([]hop, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut(string(text), "\n## The way of one pod\n")
	if !found {
		return nil, fmt.Errorf("%s has no section: The way of one pod", page)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var hops []hop
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 3 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		for i, function := range strings.Split(cells[2], ", ") {
			hops = append(hops, hop{file: strings.Trim(cells[1], "`"), function: strings.Trim(function, "`"),
				entered: i == 0 && cells[0] != ""})
		}
	}
	return hops, nil
}

// checkHops returns what is wrong: functions that do not stand in their file, that stand twice in
// the list, or that no other function of the list names, and a way that is too long.
func checkHops(root string, hops []hop) ([]string, error) {
	var problems []string
	if len(hops) == 0 {
		problems = append(problems, "no function is listed")
	}
	if len(hops) > hopFunctions {
		problems = append(problems, fmt.Sprintf("%d functions, at most %d are allowed", len(hops), hopFunctions))
	}
	files := map[string]map[string]*ast.FuncDecl{}
	seen := map[hop]bool{}
	var bodies []*ast.FuncDecl
	for _, h := range hops {
		if files[h.file] == nil {
			functions, err := functionsOf(filepath.Join(root, filepath.FromSlash(h.file)))
			if err != nil {
				return nil, err
			}
			files[h.file] = functions
		}
		at := hop{file: h.file, function: h.function}
		if seen[at] {
			problems = append(problems, fmt.Sprintf("%s of %s is listed twice", h.function, h.file))
		}
		seen[at] = true
		if f := files[h.file][h.function]; f != nil {
			bodies = append(bodies, f)
		} else {
			problems = append(problems, fmt.Sprintf("%s has no function %s", h.file, h.function))
		}
	}
	if len(files) > hopFiles {
		problems = append(problems, fmt.Sprintf("%d files, at most %d are allowed", len(files), hopFiles))
	}
	for _, h := range hops {
		own := files[h.file][h.function]
		if own == nil || h.entered {
			continue
		}
		if !slices.ContainsFunc(bodies, func(f *ast.FuncDecl) bool { return f != own && names(f, own.Name.Name) }) {
			problems = append(problems, fmt.Sprintf("no function of the list calls %s of %s", h.function, h.file))
		}
	}
	return problems, nil
}

// functionsOf gives the functions of a file by name, methods as Type.name.
func functionsOf(file string) (map[string]*ast.FuncDecl, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	functions := map[string]*ast.FuncDecl{}
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			name = lastName(of) + "." + name
		}
		functions[name] = f
	}
	return functions, nil
}

// names reports whether the function's body uses the name.
func names(f *ast.FuncDecl, name string) bool {
	found := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		ident, ok := n.(*ast.Ident)
		found = found || ok && ident.Name == name
		return !found
	})
	return found
}
