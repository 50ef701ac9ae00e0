package repocheck

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what is checked of a file in .github/workflows.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Strategy struct {
			Matrix map[string][]string `json:"matrix"`
		} `json:"strategy"`
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	// pinned is an action at a commit, with its version for people.
	pinned = regexp.MustCompile(`^\s*(- )?uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	// made is one target of the Makefile with its variables.
	made = regexp.MustCompile(`^make ([a-z0-9-]+|\$\{\{ matrix\.target \}\})( [A-Z]+=[\w./-]+)*$`)
)

// workflowProblems says what is wrong with a workflow, given the targets of the Makefile.
func workflowProblems(text string, targets []string) []string {
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	if w.Permissions == nil {
		problems = append(problems, "no permissions: the default gives too many")
	}
	for scope, access := range w.Permissions {
		if access != "read" {
			problems = append(problems, "all jobs may "+access+" "+scope)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "uses:") && !pinned.MatchString(strings.TrimRight(line, "\n")) {
			problems = append(problems, "not pinned by a commit with its version: "+strings.TrimSpace(line))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		job := w.Jobs[name]
		for _, target := range job.Strategy.Matrix["target"] {
			problems = append(problems, targetProblems("make "+target, targets)...)
		}
		for _, step := range job.Steps {
			if step.Run != "" {
				problems = append(problems, targetProblems(step.Run, targets)...)
			}
		}
	}
	return problems
}

func targetProblems(run string, targets []string) []string {
	found := made.FindStringSubmatch(run)
	if found == nil {
		return []string{"not a target of the Makefile alone: " + run}
	}
	if !strings.HasPrefix(found[1], "$") && !slices.Contains(targets, found[1]) {
		return []string{"the Makefile has no target " + found[1]}
	}
	return nil
}

// makeTargets are the targets of the Makefile that `make help` shows.
func makeTargets(t *testing.T) []string {
	t.Helper()
	var targets []string
	for _, found := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.* ## `).FindAllStringSubmatch(rootFile(t, "Makefile"), -1) {
		targets = append(targets, found[1])
	}
	return append(targets, "verify")
}

func rootFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWorkflows(t *testing.T) {
	for _, name := range []string{"ci", "release", "nightly", "site"} {
		for _, problem := range workflowProblems(rootFile(t, ".github/workflows/"+name+".yaml"), makeTargets(t)) {
			t.Errorf("%s.yaml: %s", name, problem)
		}
	}
}

func TestWorkflowsCatches(t *testing.T) {
	const good = "permissions: {contents: read}\njobs:\n  a:\n    steps:\n" +
		"      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0\n      - run: make lint V=1\n"
	if problems := workflowProblems(good, []string{"lint"}); len(problems) > 0 {
		t.Fatalf("problems %q", problems)
	}
	for name, change := range map[string][2]string{
		"a tag":                  {"08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "v5"},
		"a commit of no version": {" # v5.0.0", ""},
		"a shell command":        {"make lint V=1", "make lint && rm -rf x"},
		"an unknown target":      {"make lint", "make nothing"},
		"no permissions":         {"permissions: {contents: read}", ""},
		"too many permissions":   {"contents: read", "contents: write"},
		"an unknown matrix":      {"    steps:", "    strategy: {matrix: {target: [nothing]}}\n    steps:"},
	} {
		problems := workflowProblems(strings.Replace(good, change[0], change[1], 1), []string{"lint"})
		if len(problems) != 1 {
			t.Errorf("%s: problems %q", name, problems)
		}
	}
}

// compilerFlags are how a program of a release is compiled.
type compilerFlags struct{ environment, flags, ldflags string }

var (
	dockerBuild = regexp.MustCompile(`(?s)(CGO_ENABLED=\d) .*?go build (.*?) -ldflags "(.*?)" -o /stratos `)
	makeBuild   = regexp.MustCompile(`(?m)^\t(CGO_ENABLED=\d) go build -p \$\(P\) (.*?) -ldflags '\$\(LDFLAGS\)' -o bin/ `)
	makeFlags   = regexp.MustCompile(`(?m)^LDFLAGS = (.*)$`)
)

// TestImagesAreCompiledAlike: the image of ko, that of the Dockerfile and `make build` have the
// same flags of the compiler.
func TestImagesAreCompiledAlike(t *testing.T) {
	version := regexp.MustCompile(`\$\{VERSION\}|\$\(VERSION\)|\{\{\.Env\.VERSION\}\}`)
	docker := dockerBuild.FindStringSubmatch(rootFile(t, "Dockerfile"))
	built := makeBuild.FindStringSubmatch(rootFile(t, "Makefile"))
	flags := makeFlags.FindStringSubmatch(rootFile(t, "Makefile"))
	var ko struct {
		DefaultBaseImage string `json:"defaultBaseImage"`
		Builds           []struct {
			Main    string   `json:"main"`
			Env     []string `json:"env"`
			Flags   []string `json:"flags"`
			Ldflags []string `json:"ldflags"`
		} `json:"builds"`
	}
	if err := yaml.Unmarshal([]byte(rootFile(t, ".ko.yaml")), &ko); err != nil {
		t.Fatal(err)
	}
	if docker == nil || built == nil || flags == nil || len(ko.Builds) != 1 || ko.Builds[0].Main != "./cmd/stratos" {
		t.Fatalf("Dockerfile %q, Makefile %q %q, .ko.yaml %+v", docker, built, flags, ko)
	}
	build := ko.Builds[0]
	all := map[string]compilerFlags{
		"Dockerfile": {docker[1], docker[2], docker[3]},
		"Makefile":   {built[1], built[2], flags[1]},
		".ko.yaml":   {strings.Join(build.Env, " "), strings.Join(build.Flags, " "), strings.Join(build.Ldflags, " ")},
	}
	want := compilerFlags{"CGO_ENABLED=0", "-trimpath -buildvcs=false", "-s -w -X main.version=VERSION"}
	for name, got := range all {
		got.ldflags = version.ReplaceAllString(got.ldflags, "VERSION")
		if got != want {
			t.Errorf("%s has %+v, want %+v", name, got, want)
		}
	}
	if !strings.Contains(rootFile(t, "Dockerfile"), "ARG RUNTIME_IMAGE="+ko.DefaultBaseImage+"\n") {
		t.Errorf(".ko.yaml has the base %s, the Dockerfile another", ko.DefaultBaseImage)
	}
	if !strings.Contains(rootFile(t, "e2e/release/plugin.go"), `"-s -w -X main.version=" + version`) {
		t.Error("the plugin of a release is compiled with other flags than make build")
	}
}
