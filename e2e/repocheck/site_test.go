package repocheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quoted finds the names of pages in the sidebars.
var quoted = regexp.MustCompile(`'([A-Za-z-]+)'`)

// sidebars are the pages of the documentation site, by the name of their sidebar.
func sidebars(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", "site", "sidebars.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	use, build, found := strings.Cut(string(text), "build: [")
	if !found {
		t.Fatal("docs/site/sidebars.mjs has no sidebar build")
	}
	pages := func(part string) []string {
		var names []string
		for _, m := range quoted.FindAllStringSubmatch(regexp.MustCompile(`(type|label): '[^']*'`).ReplaceAllString(part, ""), -1) {
			names = append(names, m[1])
		}
		return names
	}
	return map[string][]string{"use": pages(use), "build": pages(build)}
}

// docPages are the pages of docs by their names.
func docPages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".md")
	}
	return files
}

// TestEveryPageIsInASidebar: in one of the two, once.
func TestEveryPageIsInASidebar(t *testing.T) {
	bars := sidebars(t)
	listed := slices.Sorted(slices.Values(slices.Concat(bars["use"], bars["build"])))
	pages := slices.Sorted(slices.Values(docPages(t)))
	for _, p := range pages {
		if !slices.Contains(listed, p) {
			t.Errorf("docs/%s.md is in no sidebar of docs/site/sidebars.mjs", p)
		}
	}
	for i, p := range listed {
		if !slices.Contains(pages, p) {
			t.Errorf("a sidebar names %s, and there is no such page", p)
		}
		if i > 0 && listed[i-1] == p {
			t.Errorf("%s is in the sidebars twice", p)
		}
	}
}

// rawHTML finds a tag; a comment and a link in angle brackets are none.
var rawHTML = regexp.MustCompile(`</?[A-Za-z][^>:]*>`)

// TestNoRawHTMLOnPages: the site leaves it out without a word, so <name> would vanish.
func TestNoRawHTMLOnPages(t *testing.T) {
	for _, page := range docPages(t) {
		text, err := os.ReadFile(filepath.Join(repository, "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tagsIn(string(text)) {
			t.Errorf("docs/%s.md has %s outside code", page, tag)
		}
	}
	if got := tagsIn("a <name> and `<code>`\n```\n<fence>\n```\n<!-- comment --> <https://example.com>\n"); !slices.Equal(got,
		[]string{"<name>"}) {
		t.Errorf("tags %q", got)
	}
}

// tagsIn are the tags outside code.
func tagsIn(text string) []string {
	var tags []string
	fenced := false
	code := regexp.MustCompile("`[^`]*`")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			tags = append(tags, rawHTML.FindAllString(code.ReplaceAllString(line, ""), -1)...)
		}
	}
	return tags
}

// insideOf finds what is for builders: a test, or a path in a folder with Go code.
var insideOf = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*|\bgo test\b|` +
	`(^|[^\w/.-])(\.\./)*((cmd|webhook|extender|scaler|provider|crds|e2e)/[a-z]\w*[\w/.-]*)`)

// TestUsePagesNameNoTestOrPackage of this repository: those who run Stratos do not have its tree.
func TestUsePagesNameNoTestOrPackage(t *testing.T) {
	bars := sidebars(t)
	if len(bars["use"]) < 20 {
		t.Fatalf("the sidebar use has %d pages", len(bars["use"]))
	}
	for _, page := range bars["use"] {
		text, err := os.ReadFile(filepath.Join(repository, "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, name := range insidesIn(line) {
				t.Errorf("docs/%s.md:%d names %s: that is for a page of the sidebar build", page, i+1, name)
			}
		}
	}
}

// insidesIn are the tests and packages of this repository that a line names.
func insidesIn(line string) []string {
	var names []string
	for _, m := range insideOf.FindAllString(line, -1) {
		names = append(names, strings.TrimLeft(m, "`([ "))
	}
	return names
}

func TestInsidesIn(t *testing.T) {
	for line, want := range map[string]string{
		"shown by `TestGone/Leader` (`FuzzNames`)":     "TestGone FuzzNames",
		"run `cd e2e && go test ./suites/a`":           "go test",
		"`provider/aws/ec2test` has [it](../e2e/a.go)": "provider/aws/ec2test ../e2e/a.go",
		"webhook/doc.go": "webhook/doc.go",
		"`k8s.io/kube-scheduler/extender/v1`, a Testbed": "",
		"`stacks/providers/aws`, `crds`, TestContainers": "TestContainers",
		"charts/stratos, node.cluster.x-k8s.io/provider": "",
	} {
		if got := strings.Join(insidesIn(line), " "); got != want {
			t.Errorf("%q names %q, want %q", line, got, want)
		}
	}
}

// TestTheRunNeedsNoNode: the documentation site has targets of its own, so that what must pass
// before a merge passes on a clone without `npm install`, and on a machine without Node.
func TestTheRunNeedsNoNode(t *testing.T) {
	run, err := os.ReadFile(filepath.Join(repository, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	target := regexp.MustCompile(`(?m)^ *begin ([a-z][a-z0-9-]*)`)
	for _, m := range target.FindAllStringSubmatch(string(run), -1) {
		targets = append(targets, m[1])
	}
	for _, target := range []string{"verify", "lint", "test", "e2e-kind"} {
		if !slices.Contains(targets, target) {
			t.Errorf(".ci/run makes %q, want %s among them", targets, target)
		}
	}
	needsNode := regexp.MustCompile(`\b(npm|npx|chromium)\b`)
	recipes := func(target string) string {
		// A dry run carries out lines that call make. One of them empties a record of `make test`,
		// which may be running.
		cmd := exec.CommandContext(t.Context(), "make", "--dry-run", target, "RECORDS="+t.TempDir())
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make --dry-run %s: %v\n%s", target, err, out)
		}
		return string(out)
	}
	for _, target := range targets {
		if found := needsNode.FindString(recipes(target)); found != "" {
			t.Errorf("make %s calls %s", target, found)
		}
	}
	if !needsNode.MatchString(recipes("site-test")) {
		t.Error("make site-test calls no npm: this test finds nothing")
	}
}
