package oracles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testdata = "../../provider/userdata/testdata"

// golden is user data that provider/userdata writes, and what the user wrote of it.
type golden struct{ name, user, text string }

// goldens reads the golden files of a family.
func goldens(t *testing.T, family string) []golden {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(testdata, family, "*.in"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("%s has %d golden files, %v", family, len(inputs), err)
	}
	var found []golden
	for _, input := range inputs {
		path := strings.TrimSuffix(input, ".in")
		found = append(found, golden{filepath.Base(path), readFile(t, input), readFile(t, path+".golden")})
	}
	return found
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cacheFolder is in the folder that e2e/controlplane uses, whose comment gives the reason.
func cacheFolder() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".cache")
	}
	folder := filepath.Join(base, "stratos", "oracles")
	return folder, os.MkdirAll(folder, 0o755)
}

// cached returns a folder in the cache. fill makes what is in it where it is missing, and the
// folder appears whole. A test without its oracle fails and says that it was not run.
func cached(t *testing.T, name string, fill func(folder string) error) string {
	t.Helper()
	folder, err := fillCache(name, fill)
	if err != nil {
		t.Fatalf("NOT RUN: %s: %v", name, err)
	}
	return folder
}

func fillCache(name string, fill func(folder string) error) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, name)
	if isFolder(target) {
		return target, nil
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	if err := fill(work); err != nil {
		return "", err
	}
	if err := os.Rename(work, target); err != nil && !isFolder(target) { // another process may be first
		return "", err
	}
	return target, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// run returns the standard output. The error has the standard error.
func run(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// pair is the value here and there. What is missing is nil.
type pair struct{ Ours, Theirs any }

// differences compares two documents by the paths of their values.
func differences(t *testing.T, ours, theirs map[string]any) map[string]pair {
	t.Helper()
	a, b := map[string]any{}, map[string]any{}
	flatten("", plain(t, ours), a)
	flatten("", plain(t, theirs), b)
	found := map[string]pair{}
	for path, value := range a {
		if b[path] != value {
			found[path] = pair{value, b[path]}
		}
	}
	for path, value := range b {
		if _, known := a[path]; !known {
			found[path] = pair{nil, value}
		}
	}
	return found
}

// plain turns all types into those of JSON.
func plain(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// flatten writes each value under its path. A list is one value, of which the order counts.
func flatten(path string, value any, to map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(strings.TrimPrefix(path+"/"+key, "/"), inner, to)
		}
	case []any:
		to[path] = fmt.Sprint(value)
	default:
		to[path] = value
	}
}
