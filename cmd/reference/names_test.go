package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryNameIsOnThePage: each constant of names.go that users see, and each key of ours in the
// sources, stands in docs/names.md as code; and each such key on the page is in the sources.
func TestEveryNameIsOnThePage(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/names.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	constants := constantsOf(t, root+"/crds/v1alpha1/names.go")
	for _, hidden := range []string{
		"NoSuchCommand", "LabelControlPlane", "LeaseName", "ManagedByStratos", // read, or said where it is used
		"CloudAWS", "CloudFake", "CloudKind", "labelRole",
	} {
		delete(constants, hidden)
	}
	if len(constants) < 50 {
		t.Fatalf("%d constants", len(constants))
	}
	for name, value := range constants {
		// A value is a part of a code span: a taint has its effect behind it.
		if !regexp.MustCompile("`[^`\n]*\\b" + regexp.QuoteMeta(value) + "\\b[^`\n]*`").MatchString(page) {
			t.Errorf("docs/names.md has no `%s` (%s)", value, name)
		}
	}
	key := regexp.MustCompile(`stratos\.sh/[a-zA-Z][a-zA-Z-]*`)
	onPage, inSources := map[string]bool{}, keysIn(t)
	for _, k := range key.FindAllString(page, -1) {
		onPage[k] = true
		if !inSources[k] {
			t.Errorf("docs/names.md has %s, which is nowhere in the sources", k)
		}
	}
	for k := range inSources {
		if !onPage[k] {
			t.Errorf("docs/names.md has no %s", k)
		}
	}
}

// constantsOf are the constants of a Go file that are texts.
func constantsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if text, ok := v.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				value, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				values[v.Names[0].Name] = value
			}
		}
		return true
	})
	return values
}

// keysIn are the keys of ours that the sources write in full, as texts of their own: those of Go,
// and in Packer's files those of the tags of images.
func keysIn(t *testing.T) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	text := regexp.MustCompile(`"(stratos\.sh/[a-zA-Z][a-zA-Z-]*)"`)
	for _, folder := range []string{"cmd", "crds", "extender", "provider", "scaler", "stacks", "webhook"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
				filepath.Ext(path) != ".go" && filepath.Ext(path) != ".hcl" {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range text.FindAllStringSubmatch(string(source), -1) {
				keys[found[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestTypesOfEvents: where a call names reason and type, the reason's comment has the same type.
func TestTypesOfEvents(t *testing.T) {
	list, err := eventReasons(root + "/crds/v1alpha1/conditions.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, e := range list {
		kinds[e.constant] = e.kind
	}
	checked := map[string]bool{}
	for _, folder := range []string{"extender", "scaler"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, e := range eventsOf(parsed) {
				checked[e.constant] = true
				if kinds[e.constant] != e.kind {
					t.Errorf("%s: an event %s is %s, its comment says %q", path, e.constant, e.kind, kinds[e.constant])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(checked) < 20 {
		t.Errorf("%d reasons are named with a type", len(checked))
	}
}

// eventsOf are the events of which a file names type and reason in one call.
func eventsOf(file *ast.File) []eventReason {
	var found []eventReason
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		reason, kind := "", ""
		for _, arg := range call.Args {
			if text, ok := arg.(*ast.CallExpr); ok && len(text.Args) == 1 { // string(reason)
				arg = text.Args[0]
			}
			if name, ok := arg.(*ast.SelectorExpr); ok {
				if rest, ok := strings.CutPrefix(name.Sel.Name, "EventType"); ok {
					kind = rest
				} else if strings.HasPrefix(name.Sel.Name, "Reason") && name.Sel.Name != "Reason" {
					reason = name.Sel.Name
				}
			}
		}
		if reason != "" && kind != "" {
			found = append(found, eventReason{constant: reason, kind: kind})
		}
		return true
	})
	return found
}
