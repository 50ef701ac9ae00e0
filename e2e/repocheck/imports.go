package repocheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Package is what the import law needs to know of one package, as `go list -json` prints it.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Pattern selects packages. "./a/b" is that one package of ours, "./a/b/..." it and all below it;
// without "./" the same is meant for packages of others and of the standard library. "./..." is
// everything of ours.
type Pattern string

// Matches reports whether the import path is one that the pattern selects.
func (p Pattern) Matches(importPath string) bool {
	full := string(p)
	if rest, ours := strings.CutPrefix(full, "./"); ours {
		full = ModulePath + "/" + rest
	}
	base, subtree := strings.CutSuffix(full, "/...")
	return importPath == base || subtree && strings.HasPrefix(importPath, base+"/")
}

// Reach says how far a rule looks from the importing package.
type Reach string

// Direct looks at the import statements of a package alone, ThroughOthers follows them to the end.
const (
	Direct        Reach = "direct"
	ThroughOthers Reach = "through others"
)

// Rule forbids edges of the import graph.
type Rule struct {
	From       []Pattern
	FromExcept []Pattern
	To         []Pattern
	ToExcept   []Pattern
	Reach      Reach
	// InTests applies the rule to the import statements of test files as well.
	InTests bool
	// Reason is what the reader of a violation is told.
	Reason string
}

// Violation is one forbidden edge that exists.
type Violation struct {
	// Chain leads from the package that the rule protects to the one it must not reach.
	Chain  []string
	Reason string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s", strings.Join(v.Chain, " -> "), v.Reason)
}

func matchesAny(patterns []Pattern, importPath string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Matches(importPath) })
}

func (r Rule) protects(importPath string) bool {
	return matchesAny(r.From, importPath) && !matchesAny(r.FromExcept, importPath)
}

func (r Rule) forbids(importPath string) bool {
	return matchesAny(r.To, importPath) && !matchesAny(r.ToExcept, importPath)
}

// Violations returns every forbidden edge in the packages, sorted by rule and then by importing
// package. Of several ways to one forbidden package only the shortest is reported.
func Violations(packages []Package, rules []Rule) []Violation {
	graph := make(map[string]Package, len(packages))
	for _, p := range packages {
		graph[p.ImportPath] = p
	}
	sorted := slices.SortedFunc(slices.Values(packages), func(a, b Package) int {
		return strings.Compare(a.ImportPath, b.ImportPath)
	})
	var found []Violation
	for _, rule := range rules {
		for _, p := range sorted {
			if rule.protects(p.ImportPath) {
				found = append(found, rule.violationsOf(p, graph)...)
			}
		}
	}
	return found
}

// violationsOf searches breadth first, so that the first chain to a package is a shortest one.
func (r Rule) violationsOf(p Package, graph map[string]Package) []Violation {
	var found []Violation
	seen := map[string]bool{p.ImportPath: true}
	queue := [][]string{{p.ImportPath}}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		for _, next := range r.edges(chain, graph) {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(chain), next)
			if r.forbids(next) {
				found = append(found, Violation{Chain: longer, Reason: r.Reason})
				continue
			}
			if r.Reach == ThroughOthers {
				queue = append(queue, longer)
			}
		}
	}
	return found
}

// edges leaves out test imports past the first step: the tests of a package that we import are not
// part of us.
func (r Rule) edges(chain []string, graph map[string]Package) []string {
	p := graph[chain[len(chain)-1]]
	edges := slices.Clone(p.Imports)
	if r.InTests && len(chain) == 1 {
		edges = slices.Concat(edges, p.TestImports, p.XTestImports)
	}
	slices.Sort(edges)
	return edges
}

// ListPackages returns the packages of the module in dir and everything they import. The error
// carries what the go command said; a package that does not load is an error, because edges of such
// a package would go unseen.
func ListPackages(dir string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = dir
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", dir, err, complaints.String())
	}
	return decodePackages(bytes.NewReader(out))
}

func decodePackages(r io.Reader) ([]Package, error) {
	var packages []Package
	decoder := json.NewDecoder(r)
	for {
		var p Package
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what go list printed: %w", err)
		}
		packages = append(packages, p)
	}
}
