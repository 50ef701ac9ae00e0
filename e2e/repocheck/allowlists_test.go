package repocheck

import (
	"bufio"
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

// allowList is one strict list of depguard in .golangci.yml.
type allowList struct {
	name         string
	files, allow []string
}

var (
	listName  = regexp.MustCompile(`^        ([a-z0-9-]+):`)
	listFiles = regexp.MustCompile(`^          files: \[(.*)\]`)
	listEntry = regexp.MustCompile(`^            - ([^ {]+)`)
)

// allowLists reads the strict lists by their lines: a parser of YAML would be a dependency of what
// runs before all else.
func allowLists(t *testing.T) []allowList {
	t.Helper()
	f, err := os.Open(filepath.Join(repository, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lists []allowList
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if m := listName.FindStringSubmatch(line); m != nil {
			lists = append(lists, allowList{name: m[1]})
		}
		if len(lists) == 0 {
			continue
		}
		last := &lists[len(lists)-1]
		if m := listFiles.FindStringSubmatch(line); m != nil {
			for glob := range strings.SplitSeq(m[1], ",") {
				last.files = append(last.files, strings.Trim(glob, ` "`))
			}
		}
		if m := listEntry.FindStringSubmatch(line); m != nil {
			last.allow = append(last.allow, m[1])
		}
	}
	return lists
}

// holds reports whether the file, relative to the root, is one that the list is about.
func (l allowList) holds(file string) bool {
	in := false
	for _, glob := range l.files {
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
	for _, list := range allowLists(t) {
		for _, entry := range list.allow {
			if entry == "$gostd" || strings.HasPrefix(entry, ModulePath) {
				continue
			}
			checked++
			if !imported(imports, list, entry) {
				t.Errorf(".golangci.yml: list %s allows %s, which none of its files imports", list.name, entry)
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
	err := filepath.WalkDir(repository, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != repository && leftOut(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(repository, file)
		for _, i := range parsed.Imports {
			path, unquoteErr := strconv.Unquote(i.Path.Value)
			if unquoteErr != nil {
				return unquoteErr
			}
			found[filepath.ToSlash(from)] = append(found[filepath.ToSlash(from)], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
