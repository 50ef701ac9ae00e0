package repocheck

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheWayOfOnePod holds the list of docs/filter.md to the functions that exist, and to a length
// that a reader can follow.
func TestTheWayOfOnePod(t *testing.T) {
	hops, err := readHops(filepath.Join(repository, "docs", "filter.md"))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := checkHops(repository, hops)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("docs/filter.md, the way of one pod: %s", problem)
	}
	files := map[string]bool{}
	for _, h := range hops {
		files[h.file] = true
	}
	t.Logf("%d functions in %d files", len(hops), len(files))
}

func TestCheckHops(t *testing.T) {
	for name, c := range map[string]struct {
		table string
		want  []string
	}{
		"a way": {table: "| x | `a/a.go` | `first`, `Type.second` |\n| | `a/b.go` | `third` |\n" +
			"| y | `a/b.go` | `apart` |\n"},
		"a function that is not there": {table: "| x | `a/a.go` | `first`, `gone` |\n",
			want: []string{"a/a.go has no function gone"}},
		"a function that stands in another file": {table: "| x | `a/a.go` | `third` |\n",
			want: []string{"a/a.go has no function third"}},
		"a function that none of the others calls": {table: "| x | `a/a.go` | `first` |\n| | `a/b.go` | `apart` |\n",
			want: []string{"no function of the list calls apart of a/b.go"}},
		"a function that calls itself": {table: "| x | `a/a.go` | `first` |\n| | `a/b.go` | `again` |\n",
			want: []string{"no function of the list calls again of a/b.go"}},
		"twice": {table: "| x | `a/a.go` | `first` |\n| y | `a/a.go` | `first` |\n",
			want: []string{"first of a/a.go is listed twice"}},
		"nothing": {table: "", want: []string{"no function is listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := treeOf(t, map[string]string{
				"page.md": "# Page\n\n## The way of one pod\n\nWords.\n\n" + c.table + "\n## Next\n\n| x | `a/a.go` | `gone` |\n",
				"a/a.go": "package a\n\ntype Type struct{}\n\nfunc first() { Type{}.second() }\n\n" +
					"func (Type) second() { third() }\n",
				"a/b.go": "package a\n\nfunc third() {}\n\nfunc apart() {}\n\nfunc again() { again() }\n",
			})
			hops, err := readHops(filepath.Join(root, "page.md"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := checkHops(root, hops)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("problems %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheWayIsBounded(t *testing.T) {
	files := map[string]string{"a/long.go": "package a\n"}
	var hops []hop
	for i := range 41 {
		name := fmt.Sprint("f", i)
		files["a/long.go"] += "\nfunc " + name + "() {}\n"
		hops = append(hops, hop{"a/long.go", name, true})
	}
	for i := range 20 {
		file := fmt.Sprintf("a/a%d.go", i)
		files[file] = fmt.Sprintf("package a\n\nfunc g%d() {}\n", i)
		hops = append(hops, hop{file, fmt.Sprint("g", i), true})
	}
	got, err := checkHops(treeOf(t, files), hops)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"61 functions, at most 60 are allowed", "21 files, at most 20 are allowed"}
	if !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

func TestTheWayNeedsItsSection(t *testing.T) {
	root := treeOf(t, map[string]string{"page.md": "# Page\n"})
	if _, err := readHops(filepath.Join(root, "page.md")); err == nil || !strings.Contains(err.Error(), "no section") {
		t.Errorf("error = %v, want one that says what is missing", err)
	}
}
