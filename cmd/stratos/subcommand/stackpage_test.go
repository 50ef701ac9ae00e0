package subcommand

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

var pageBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?\n)```$")

// TestClusterStacksPage runs the commands of docs/cluster-stacks.md in order, in a copy of the
// project's stacks in which the charts of others are small ones, and parses its files.
func TestClusterStacksPage(t *testing.T) {
	blocks := pageBlock.FindAllStringSubmatch(page(t, "docs/cluster-stacks.md"), -1)
	t.Chdir(stackstest.CopyWithSmallCharts(t, "../../.."))
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
	if kinds["sh"] != 3 || kinds["yaml"] != 4 {
		t.Errorf("blocks %v", kinds)
	}
	if parseOfPage(t, "apiVersion: v1\n") == nil || parseOfPage(t, "folder: a\ncharts: [{name: b}]\n") == nil {
		t.Error("any file is accepted")
	}
}

// runOfPage runs a command of the page. What would call a registry or the module proxy is only
// parsed. Before the change that the page speaks of, one is made.
func runOfPage(t *testing.T, words []string) {
	t.Helper()
	line := strings.Join(words, " ")
	switch {
	case line == "make stack-charts", words[0] == "export":
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
