package repocheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNoTestCanSkipItself(t *testing.T) {
	sources, err := ReadSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, skip := range sources.Skips {
		t.Errorf("%s: a test that cannot run here fails and says why", skip)
	}
}

// tree writes files below a new folder and reads the sources in it.
func tree(t *testing.T, files map[string]string) *Sources {
	t.Helper()
	sources, err := ReadSources(treeOf(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// treeOf writes the files into a folder of their own.
func treeOf(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// someTests is a tree with a test in every form that a name in the list may mean.
func someTests(t *testing.T) *Sources {
	t.Helper()
	return tree(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestOne(t *testing.T) { for name := range rows() { t.Run(name, func(t *testing.T) { t.Run("inner", check) }) } }
func rows() map[string]int { return map[string]int{"a taint without a key": 1} }
func check(t *testing.T) { t.Log() }
func TestTwice(t *testing.T) { t.Log() }
func TestEmpty(t *testing.T) {}
func FuzzDecoder(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { t.Log() }) }
`,
		"b/b_test.go":          "package b\nimport \"testing\"\nfunc TestTwice(t *testing.T) { t.Log(\"elsewhere\") }\n",
		"b/plain.go":           "package b\nimport \"testing\"\nfunc TestInNoTestFile(t *testing.T) { t.Log() }\n",
		"testdata/out_test.go": "package out\nimport \"testing\"\nfunc TestLeftOut(t *testing.T) { t.Log() }\n",
	})
}

func TestFind(t *testing.T) {
	sources := someTests(t)
	tests := map[string]struct {
		name TestName
		want string
	}{
		"a test":                               {name: "TestOne"},
		"a fuzz target":                        {name: "FuzzDecoder"},
		"a row of a table as subtest":          {name: "TestOne/a taint without a key"},
		"a subtest as go prints it, and inner": {name: "a/TestOne/a_taint_without_a_key/inner"},
		"a test of two packages with a folder": {name: "b/TestTwice"},
		"a test that does not exist":           {name: "TestToCome", want: "does not exist"},
		"a test of two packages":               {name: "TestTwice", want: "write its folder"},
		"a test in the wrong folder":           {name: "b/TestOne", want: "does not exist"},
		"a subtest that nothing names":         {name: "TestOne/a taint", want: "names the subtest"},
		"a test without a statement":           {name: "TestEmpty", want: "does not exist"},
		"a function outside of test files":     {name: "TestInNoTestFile", want: "does not exist"},
		"a test below testdata":                {name: "TestLeftOut", want: "does not exist"},
		"a name that is no test's":             {name: "somewhere", want: "does not exist"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := sources.Find(tt.name)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSkipsAreSeen(t *testing.T) {
	sources := tree(t, map[string]string{
		"a_test.go": `package a
import "testing"
func TestA(t *testing.T) { t.Skip("later") }
func TestB(test *testing.T) { test.SkipNow() }
func TestC(t *testing.T) { if testing.Short() { return } }
type world struct{ t *testing.T }
func (w world) need() { w.t.Skipf("no %s", "docker") }
func FuzzD(fuzz *testing.F) { fuzz.Fuzz(func(inner *testing.T, b []byte) { inner.Skip() }) }
`,
		"helper.go":  "package a\nimport \"testing\"\nfunc Need(tb testing.TB) { tb.Skip() }\n",
		"decoder.go": "package a\ntype d struct{}\nfunc (d) Skip() {}\nfunc f(t d) { t.Skip() }\n",
	})
	want := []string{"a_test.go:3: t.Skip", "a_test.go:4: test.SkipNow", "a_test.go:5: testing.Short",
		"a_test.go:7: t.Skipf", "a_test.go:8: inner.Skip", "helper.go:3: tb.Skip"}
	got := slices.Sorted(slices.Values(sources.Skips))
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
