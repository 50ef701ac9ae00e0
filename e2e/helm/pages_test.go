package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	helmCommand = regexp.MustCompile(`(?m)^helm (install|upgrade|uninstall) (?:.*\\\n)*.*$`)
	helmFlag    = regexp.MustCompile(`\s(--[a-z-]+)`)
)

// TestPagesUseFlagsOfHelm3: e2e/kind runs the pages' commands by Helm 4; their flags are also those
// of Helm 3.
func TestPagesUseFlagsOfHelm3(t *testing.T) {
	help := map[string]string{}
	for _, verb := range []string{"install", "upgrade", "uninstall"} {
		out, err := exec.CommandContext(t.Context(), "go", "tool", "helm.sh/helm/v3/cmd/helm", verb, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		help[verb] = string(out)
	}
	pages, err := filepath.Glob(tree.path("docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, page := range append(pages, tree.path("README.md"), tree.path("charts/stratos/README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range helmCommand.FindAllStringSubmatch(string(text), -1) {
			for _, flag := range helmFlag.FindAllStringSubmatch(command[0], -1) {
				used[flag[1]] = true
				if !strings.Contains(help[command[1]], " "+flag[1]+" ") {
					t.Errorf("%s: Helm 3 has no %s in %q", page, flag[1], command[0])
				}
			}
		}
	}
	if !used["--reset-then-reuse-values"] || !used["--set"] {
		t.Errorf("the flags found are only %v", used)
	}
}
