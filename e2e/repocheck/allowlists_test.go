package repocheck

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// allowList is one list of depguard in .golangci.yml. Only strict ones allow anything.
type allowList struct{ Files, Allow []string }

func allowLists(t *testing.T) map[string]allowList {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct{ Rules map[string]allowList }
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Linters.Settings.Depguard.Rules
}

// holds reports whether the file, relative to the root, is one that the list is about.
func (l allowList) holds(file string) bool {
	in := false
	for _, glob := range l.Files {
		not := strings.HasPrefix(glob, "!")
		glob, own := strings.CutPrefix(strings.TrimPrefix(glob, "!"), "${config-path}/")
		switch folder, below := strings.CutSuffix(glob, "/**"); {
		case !own:
		case below && strings.HasPrefix(file, folder+"/"), strings.TrimSuffix(glob, "/*.go") == filepath.Dir(file),
			glob == file:
			if not {
				return false
			}
			in = true
		}
	}
	return in
}

// TestAllowListsAreUsed: an entry that nothing imports would let in a dependency without a
// decision. Entries of our own packages are left out, because they say which folders may meet.
func TestAllowListsAreUsed(t *testing.T) {
	imports := importsByFile(t)
	checked := 0
	for name, list := range allowLists(t) {
		for _, entry := range list.Allow {
			if entry == "$gostd" || strings.HasPrefix(entry, ModulePath) {
				continue
			}
			checked++
			if !imported(imports, list, entry) {
				t.Errorf(".golangci.yml: list %s allows %s, which none of its files imports", name, entry)
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d entries were checked: the lists of .golangci.yml are no longer read", checked)
	}
}

func imported(imports map[string][]string, list allowList, entry string) bool {
	prefix, exact := strings.CutSuffix(entry, "$")
	for file, paths := range imports {
		if !list.holds(file) {
			continue
		}
		for _, p := range paths {
			if p == prefix || !exact && strings.HasPrefix(p, prefix) {
				return true
			}
		}
	}
	return false
}

// importsByFile are the imports of each file that is no test, by its path from the root.
func importsByFile(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := eachFile(repository, func(file string) error {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, file), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[file] = append(found[file], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
