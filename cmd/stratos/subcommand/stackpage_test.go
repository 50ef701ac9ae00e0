package subcommand

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

var pageBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?\n)```$")

// TestClusterStacksPage runs the commands of docs/cluster-stacks.md in order, in a copy of the
// project's stacks in which the charts of others are small ones, and parses its files.
func TestClusterStacksPage(t *testing.T) {
	blocks := pageBlock.FindAllStringSubmatch(page(t, "docs/cluster-stacks.md"), -1)
	t.Chdir(copyOfStacks(t))
	kinds := map[string]int{}
	for _, block := range blocks {
		language, text := block[1], block[2]
		kinds[language]++
		switch language {
		case "sh":
			for _, command := range strings.Split(strings.TrimSpace(text), "\n") {
				runOfPage(t, strings.Fields(command))
			}
		case "yaml":
			if err := parseOfPage(t, text); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		default:
			t.Errorf("the language %q is not checked", language)
		}
	}
	if kinds["sh"] != 4 || kinds["yaml"] != 4 {
		t.Errorf("blocks %v", kinds)
	}
	if parseOfPage(t, "apiVersion: v1\n") == nil || parseOfPage(t, "folder: a\ncharts: [{name: b}]\n") == nil {
		t.Error("any file is accepted")
	}
}

// copyOfStacks has small charts in place of those that the network would be needed for.
func copyOfStacks(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"stacks", "charts/stratos"} {
		if err := os.CopyFS(filepath.Join(root, folder), os.DirFS("../../../"+folder)); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := source.ReadLock(filepath.Join(root, "stacks"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range lock.Charts {
		c := &lock.Charts[i]
		chart := files.Files{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: " + c.Name + "\nversion: 1.0.0\n")}}
		for _, name := range c.Exclude {
			chart[name] = files.File{Data: []byte("x")}
		}
		if err := chart.WriteNew(lock.FolderOf(c)); err != nil {
			t.Fatal(err)
		}
		digest, err := chart.Hash()
		if err != nil {
			t.Fatal(err)
		}
		stackstest.Edit(t, root, "stacks/charts.lock", c.Digest, digest)
	}
	return root
}

// runOfPage runs a command of the page. What would call a registry or the module proxy is only
// parsed. Before the change that the page speaks of, one is made.
func runOfPage(t *testing.T, words []string) {
	t.Helper()
	line := strings.Join(words, " ")
	switch {
	case line == "make stack-charts", words[0] == "export":
		return
	case words[0] == "packer":
		checkPacker(t, line, words)
		return
	case !strings.HasPrefix(line, "stratos stack "):
		t.Errorf("%q is no command of this page", line)
		return
	case strings.Contains(line, "bump --write"):
		stackstest.Edit(t, words[len(words)-1], "cluster-class/values.yaml", "", "# a change\n")
	case strings.HasPrefix(line, "stratos stack publish ") && !strings.Contains(line, "--to"),
		strings.HasPrefix(line, "stratos stack list ") && !strings.Contains(line, "--from"):
		cmd, rest, err := stack().Find(words[2:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		return
	}
	if out, err := runStack(words[2:]...); err != nil && ExitCode(err) != nothingToBump {
		t.Errorf("%q: %v\n%s", line, err, out)
	}
}

var packerVariable = regexp.MustCompile(` -var ([a-z_]+)=`)

// checkPacker wants a template in the folder, with each variable of the command. `make test-stacks`
// runs Packer.
func checkPacker(t *testing.T, line string, words []string) {
	t.Helper()
	template, err := os.ReadFile(filepath.Join(words[len(words)-1], "node-image.pkr.hcl"))
	if err != nil {
		t.Errorf("%q: %v", line, err)
	}
	for _, found := range packerVariable.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(string(template), `variable "`+found[1]+`" {`) {
			t.Errorf("%q: the template has no variable %s", line, found[1])
		}
	}
}

func parseOfPage(t *testing.T, text string) error {
	t.Helper()
	var err error
	switch {
	case strings.Contains(text, format.ConfigAPIVersion):
		_, err = format.ParseConfig([]byte(text))
	case strings.Contains(text, format.MetadataAPIVersion):
		_, err = format.ParseMetadata([]byte(text))
	case strings.Contains(text, format.StagesAPIVersion):
		_, err = format.ParseStages([]byte(text))
	default:
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, source.LockFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = source.ReadLock(root)
	}
	return err
}
