package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upCommand is the real command as a process of its own, with a control plane up.
type upCommand struct {
	cmd        *exec.Cmd
	children   []int
	kubeconfig string
}

// buildCommand compiles the command: what happens when a process dies can only be seen on a
// process.
func buildCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "controlplane")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func startUp(t *testing.T, path, temporary string) *upCommand {
	t.Helper()
	cmd := exec.Command(path, "up", "-scheduler=false")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stderr = os.Stderr // the first run on a machine builds for minutes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // mostly gone by then
	up := &upCommand{cmd: cmd}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if path, found := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); found {
			up.kubeconfig = path
		}
		if strings.HasPrefix(lines.Text(), "logs: ") { // the last line
			break
		}
	}
	up.children = childrenOf(t, cmd.Process.Pid)
	if len(up.children) != 3 || up.kubeconfig == "" {
		t.Fatalf("children %v, kubeconfig %q; want etcd, kube-apiserver and kube-controller-manager", up.children,
			up.kubeconfig)
	}
	return up
}

func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	// a child belongs to the thread that forked it
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that ended
		}
		for _, field := range strings.Fields(string(data)) {
			id, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// allGone waits until none runs. Zombies are gone: in a container often no process reaps them.
func allGone(t *testing.T, ids []int) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		living := 0
		for _, id := range ids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				living++
			}
		}
		if living == 0 {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%d of %v still run", living, ids)
		case <-tick.C:
		}
	}
}

func TestUpEndsWithItsProcess(t *testing.T) {
	path, temporary := buildCommand(t), t.TempDir()

	killed := startUp(t, path, temporary)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait() // says that it was killed
	allGone(t, killed.children)

	interrupted := startUp(t, path, temporary)
	if err := interrupted.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := interrupted.cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v, want exit status 0", err)
	}
	allGone(t, interrupted.children)
	if _, err := os.Stat(interrupted.kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kubeconfig after SIGINT: %v, want it removed", err)
	}
}

func TestBuildPrintsTheFolder(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"build"}, &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(strings.TrimSpace(out.String()), "kubectl")); err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{"nothing": nil, "unknown word": {"down"}} {
		t.Run(name, func(t *testing.T) {
			if err := run(context.Background(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
				t.Errorf("run: %v, want %v", err, errUsage)
			}
		})
	}
}
