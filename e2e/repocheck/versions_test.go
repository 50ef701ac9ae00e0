package repocheck

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesShareVersions: where two modules require different versions of a third, all that
// imports it is compiled once for each of them. Not here are the modules of programs of others,
// whose versions are those that the programs are released with.
func TestModulesShareVersions(t *testing.T) {
	type use struct{ module, version string }
	first := map[string]use{}
	for _, module := range []string{".", "e2e", "e2e/certmanager", "e2e/helm", "e2e/kind", "e2e/observe", "e2e/parity",
		"e2e/release", "e2e/stacks"} {
		for path, version := range requirements(t, module) {
			switch other, known := first[path]; {
			case strings.HasPrefix(path, "github.com/stratos-sh/"): // replaced by a folder
			case !known:
				first[path] = use{module, version}
			case other.version != version:
				t.Errorf("%s requires %s %s, %s requires %s: make both the newer", other.module, path, other.version,
					module, version)
			}
		}
	}
	if len(first) < 100 {
		t.Errorf("only %d modules are required: the test reads too little", len(first))
	}
}

// requirements are a module's, by path.
func requirements(t *testing.T, module string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(repository, module)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read go.mod of %s: %v", module, err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions
}
