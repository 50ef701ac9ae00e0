package subcommand

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/nodeimage"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

var pageBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?\n)```$")

// asStratos makes the test binary the program stratos, for the commands of pages.
const asStratos = "RUN_AS_STRATOS"

func TestMain(m *testing.M) {
	if os.Getenv(asStratos) == "" {
		os.Exit(m.Run())
	}
	cmd := &cobra.Command{Use: "stratos", SilenceUsage: true}
	cmd.AddCommand(All()...)
	if err := cmd.Execute(); err != nil {
		os.Exit(ExitCode(err))
	}
}

// standIns puts stratos itself on PATH, and scripts in place of programs that have nothing to act
// on. helm prints a class with the variables that `manifests` reads, kubectl the Cluster that was
// applied; it wants every file that it applies.
func standIns(t *testing.T) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stackstest.Program(t, "stratos", asStratos+"=1 exec "+binary+" \"$@\"\n")
	stackstest.Program(t, "helm", `case "$*" in *cluster-class*) cat <<END
kind: ClusterClass
metadata:
  name: a
spec:
  variables:
  - {name: imageOwner, required: true, schema: {openAPIV3Schema: {type: string}}}
  - {name: region, schema: {openAPIV3Schema: {type: string, default: eu-central-1}}}
  - {name: nodeInstanceProfile, schema: {openAPIV3Schema: {type: string, default: nodes}}}
  - {name: workerInstanceType, schema: {openAPIV3Schema: {type: string, default: m6i.large}}}
  - {name: workerRootVolumeSize, schema: {openAPIV3Schema: {type: integer, default: 40}}}
END
;; *) echo "# $*";; esac
`)
	stackstest.Program(t, "kubectl", `if [ "$1" = --kubeconfig ]; then test -s "$2"; shift 2; fi || exit 1
verb=$1; shift
case $verb in
get) test "$*" = "clusters.cluster.x-k8s.io one -o yaml" && cat cluster.yaml;;
apply) while [ $# -gt 0 ]; do
  if [ "$1" = -f ]; then test -s "$2" || { echo "no file $2" >&2; exit 1; }; fi
  shift
done;;
wait | patch | delete) ;;
*) echo "unknown verb $verb" >&2; exit 1;;
esac
`)
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: one}}]\n" +
		"clusters: [{name: one, cluster: {server: '" + simcloud.ClusterEndpoint + "', certificate-authority-data: " +
		simcloud.ClusterCA() + "}}]\n"
	stackstest.Program(t, "clusterctl", "test \"$*\" = 'get kubeconfig one' && cat <<END\n"+kubeconfig+"END\n")
}

// TestClusterStacksPage runs the commands of docs/cluster-stacks.md in order, in a copy of the
// project's stacks in which the charts of others are small ones, and parses its files.
func TestClusterStacksPage(t *testing.T) {
	blocks := pageBlock.FindAllStringSubmatch(page(t, "docs/cluster-stacks.md"), -1)
	standIns(t)
	t.Chdir(stackstest.CopyWithSmallCharts(t, "../../.."))
	kinds := map[string]int{}
	for _, block := range blocks {
		language, text := block[1], block[2]
		kinds[language]++
		switch language {
		case "sh":
			for _, command := range strings.Split(strings.TrimSpace(text), "\n") {
				runOfPage(t, command)
			}
		case "yaml":
			if err := parseOfPage(t, text); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		default:
			t.Errorf("the language %q is not checked", language)
		}
	}
	if kinds["sh"] != 9 || kinds["yaml"] != 5 {
		t.Errorf("blocks %v", kinds)
	}
	if parseOfPage(t, "apiVersion: v1\n") == nil || parseOfPage(t, "folder: a\ncharts: [{name: b}]\n") == nil {
		t.Error("any file is accepted")
	}
}

// runOfPage runs a command of the page by sh. What would call a registry or the module proxy is
// only parsed. Before the change that the page speaks of, one is made.
func runOfPage(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	switch {
	case line == "make stack-charts", words[0] == "export":
		return
	case words[0] == "packer":
		checkPacker(t, line, words)
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
	out, err := exec.CommandContext(t.Context(), "sh", "-eu", "-c", line).CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == nothingToBump {
		return
	}
	if err != nil {
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
		var c *format.Config
		if c, err = format.ParseConfig([]byte(text)); err == nil {
			_, err = nodeimage.ParseConfig(c)
		}
	case strings.Contains(text, format.MetadataAPIVersion):
		_, err = format.ParseMetadata([]byte(text))
	case strings.Contains(text, nodeimage.ImagesAPIVersion):
		_, err = nodeimage.ParseImages([]byte(text), &format.Versions{Kubernetes: "v1.36.3",
			Components: format.ComponentVersions{NodeImage: "v1"}})
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

var (
	rowOfPage     = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]*) \| ?([^|]*)\|$`)
	testOfPage    = regexp.MustCompile("`(Test\\w+)`")
	commandOfPage = regexp.MustCompile("`stratos (stack [a-z ]+)`")
	testFunction  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestTheRowsOfTheClusterStackProject: each row has commands and tests that exist, or a reason why
// it is left out.
func TestTheRowsOfTheClusterStackProject(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/stack-development.md"), "## What the cluster-stack project describes")
	exist := testsOfTheRepository(t)
	rows := rowOfPage.FindAllStringSubmatch(table, -1)
	if len(rows) < 40 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows[1:] { // after the heads of the columns
		commands, tests := commandOfPage.FindAllStringSubmatch(row[2], -1), testOfPage.FindAllStringSubmatch(row[0], -1)
		if !strings.HasPrefix(row[2], "left out: ") && (len(commands) == 0 || len(tests) == 0) {
			t.Errorf("%q has %d commands and %d tests", row[1], len(commands), len(tests))
		}
		for _, command := range commands {
			if cmd, rest, err := stack().Find(strings.Fields(command[1])[1:]); err != nil || len(rest) > 0 || !cmd.Runnable() {
				t.Errorf("%q: no command %q: %v", row[1], command[1], err)
			}
		}
		for _, test := range tests {
			if !exist[test[1]] {
				t.Errorf("%q: no test %s", row[1], test[1])
			}
		}
	}
}

func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("../../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || name == "dist" || name == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, function := range testFunction.FindAllSubmatch(text, -1) {
			found[string(function[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
