package repocheck

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floorPlan is the top level of the repository: its names show the architecture.
func floorPlan() []string {
	return []string{"cmd", "webhook", "extender", "scaler", "provider", "crds", "charts", "e2e", "docs", "stacks",
		"go.mod", "go.sum", "go.tools.mod", "go.tools.sum", "go.ko.mod", "go.ko.sum", "go.cosign.mod", "go.cosign.sum",
		"go.actionlint.mod", "go.actionlint.sum",
		"Makefile", "Dockerfile", "README.md", "LICENSE",
		"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
}

// unwantedFolders are names that say nothing of what is in them.
func unwantedFolders() []string {
	return []string{"pkg", "internal", "api", "hack", "util", "utils", "common", "helpers", "misc", "types", "constants",
		"vendor"}
}

func TestFloorPlan(t *testing.T) {
	for _, file := range treeFiles(t) {
		for _, problem := range offPlan(file) {
			t.Errorf("%s: %s", file, problem)
		}
	}
}

// treeFiles lists what is, or is about to be, in the repository; build output is ignored by git and
// so by us.
func treeFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = repository
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	return strings.Fields(string(out))
}

func offPlan(file string) []string {
	var problems []string
	parts := strings.Split(filepath.ToSlash(file), "/")
	if !strings.HasPrefix(parts[0], ".") && !slices.Contains(floorPlan(), parts[0]) {
		problems = append(problems, "the top level has no place for it")
	}
	for _, folder := range parts[:len(parts)-1] {
		if slices.Contains(unwantedFolders(), folder) {
			problems = append(problems, "the folder's name "+folder+" says nothing of what is in it")
		}
	}
	return problems
}

func TestFloorPlanCatches(t *testing.T) {
	tests := map[string]int{
		"scaler/plan/plan.go":    0,
		".ci/run":                0,
		"go.tools.mod":           0,
		"pkg/scaler/scaler.go":   2,
		"scaler/internal/x.go":   1,
		"controllers/x.go":       1,
		"notes.txt":              1,
		"extender/utils/text.go": 1,
	}
	for file, want := range tests {
		t.Run(file, func(t *testing.T) {
			if got := offPlan(file); len(got) != want {
				t.Errorf("got %q, want %d problems", got, want)
			}
		})
	}
}
