package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually repeats a check of something that another process does, until it is nil or 30 s are
// over.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// processGone reads /proc where there is one, because where orphans are not reaped a dead process
// stays as a zombie that signal 0 reaches.
func processGone(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		if _, rest, found := strings.Cut(string(stat), ") "); found && strings.HasPrefix(rest, "Z") {
			return nil
		}
		return fmt.Errorf("process %d runs", pid)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d runs: %w", pid, err)
	}
	return nil
}

// groupGone is nil if no living process has this group.
func groupGone(group int) error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	if len(stats) == 0 { // no /proc on this system
		if err := syscall.Kill(-group, 0); errors.Is(err, syscall.EPERM) || err == nil {
			return fmt.Errorf("group %d lives", group)
		}
		return nil
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest) // state, parent, group
		if len(fields) > 2 && fields[0] != "Z" && fields[2] == fmt.Sprint(group) {
			return fmt.Errorf("%s is of group %d", path, group)
		}
	}
	return nil
}

// kubectl runs the plane's kubectl with input and returns its standard output.
func kubectl(t *testing.T, plane *ControlPlane, kubeconfig, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plane.KubectlPath(), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // its discovery cache would outlive the plane
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// mustKubectl is kubectl as the administrator, and its failure ends the test.
func mustKubectl(t *testing.T, plane *ControlPlane, input string, args ...string) string {
	t.Helper()
	out, err := kubectl(t, plane, plane.Kubeconfig(), input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantOutput retries kubectl until its output is as wanted.
func wantOutput(t *testing.T, plane *ControlPlane, want string, args ...string) {
	t.Helper()
	eventually(t, "kubectl "+strings.Join(args, " "), func() error {
		got, err := kubectl(t, plane, plane.Kubeconfig(), "", args...)
		if err == nil && got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}
