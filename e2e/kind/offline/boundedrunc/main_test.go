package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBound(t *testing.T) {
	const withoutResource = uint64(1)<<41 - 1 - 1<<24
	tests := map[string]struct {
		text string
		path []string
		want string
	}{
		"the one that we lack goes from each list": {
			text: `{"ociVersion":"1.0","process":{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE","CAP_BPF"],"effective":["CAP_SYS_RESOURCE"]}}}`,
			path: []string{"process"},
			want: `{"ociVersion":"1.0","process":{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN","CAP_BPF"],"effective":[]}}}`,
		},
		"a process to be run in a container": {
			text: `{"args":["sh"],"capabilities":{"permitted":["CAP_SYS_RESOURCE","CAP_KILL"]}}`,
			want: `{"args":["sh"],"capabilities":{"permitted":["CAP_KILL"]}}`,
		},
		"numbers stay exact": {text: `{"limit":9223372036854775807}`, want: `{"limit":9223372036854775807}`},
		"a capability of a newer kernel": {text: `{"capabilities":{"bounding":["CAP_NEWER"]}}`,
			want: `{"capabilities":{"bounding":["CAP_NEWER"]}}`},
		"a specification without process": {text: `{"ociVersion":"1.0"}`, path: []string{"process"},
			want: `{"ociVersion":"1.0"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := bound([]byte(tt.text), withoutResource, tt.path...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBoundFiles(t *testing.T) {
	tests := map[string][]string{
		"create with a bundle":            {"--root", "/run", "create", "--bundle", "BUNDLE", "id"},
		"create with a joined flag":       {"create", "--bundle=BUNDLE", "id"},
		"create with the short flag":      {"create", "-b", "BUNDLE", "id"},
		"exec of a process from a file":   {"exec", "--process", "BUNDLE/config.json", "id"},
		"a call that has nothing to edit": {"state", "id"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			bundle := t.TempDir()
			file := filepath.Join(bundle, "config.json")
			text := `{"capabilities":{"bounding":["CAP_CHOWN"]},"process":{"capabilities":{"bounding":["CAP_CHOWN"]}}}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for i, arg := range args {
				switch arg {
				case "BUNDLE":
					args[i] = bundle
				case "--bundle=BUNDLE":
					args[i] = "--bundle=" + bundle
				case "BUNDLE/config.json":
					args[i] = file
				}
			}
			if err := boundFiles(args, 0); err != nil {
				t.Fatal(err)
			}
			if got, want := remaining(t, file), remains(args); got != want {
				t.Errorf("%d capabilities are left, want %d", got, want)
			}
		})
	}
}

// remaining counts the capabilities in the file, of the container and of the process.
func remaining(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type process struct{ Capabilities struct{ Bounding []string } }
	read := struct {
		process
		Process process
	}{}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return len(read.Capabilities.Bounding) + len(read.Process.Capabilities.Bounding)
}

// remains: each call edits one of the two.
func remains(args []string) int {
	if args[0] == "state" {
		return 2
	}
	return 1
}

func TestBoundingSet(t *testing.T) {
	got, err := boundingSet("Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001fffeffffff\n")
	if err != nil {
		t.Fatal(err)
	}
	if !beyond("CAP_SYS_RESOURCE", got) || beyond("CAP_SYS_TIME", got) || beyond("CAP_CHECKPOINT_RESTORE", got) {
		t.Errorf("of %x only CAP_SYS_RESOURCE is missing", got)
	}
	if _, err := boundingSet("Name:\tx\n"); err == nil {
		t.Error("a status without the set is taken")
	}
}

func TestKillThawsWhatIsFrozen(t *testing.T) {
	cgroup := t.TempDir()
	states := map[string]string{"freezer.state": "THAWED\n", "kubelet/freezer.state": "FREEZING\n",
		"kubelet/pod/freezer.state": "FROZEN\n", "kubelet/pod/cgroup.procs": "7\n"}
	for name, text := range states {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(cgroup, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cgroup, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := kill("true", nil, []string{cgroup, filepath.Join(cgroup, "gone")}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"freezer.state": "THAWED\n", "kubelet/freezer.state": "THAWED",
		"kubelet/pod/freezer.state": "THAWED", "kubelet/pod/cgroup.procs": "7\n"}
	for name := range states {
		text, err := os.ReadFile(filepath.Join(cgroup, name))
		if err != nil {
			t.Fatal(err)
		}
		states[name] = string(text)
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var exit *exec.ExitError
	if err := kill("false", nil, []string{cgroup}); !errors.As(err, &exit) {
		t.Errorf("runc failed, and kill says %v", err)
	}
}
