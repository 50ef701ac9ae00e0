package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shellProcess is a component that runs a shell script; it is ready at once.
func shellProcess(t *testing.T, script string) *Process {
	t.Helper()
	p := &Process{name: "script", path: "/bin/sh", args: []string{"-c", script},
		logPath: filepath.Join(t.TempDir(), "script.log"),
		ready:   func(context.Context) error { return nil }, timeout: 10 * time.Second}
	t.Cleanup(p.Kill)
	return p
}

func TestProcessStartStopAndStartAgain(t *testing.T) {
	p := shellProcess(t, "echo started; exec tail -f /dev/null")
	for range 2 {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Start: %v, want %v", err, ErrRunning)
		}
		if p.PID() == 0 {
			t.Error("PID = 0 while it runs")
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if p.PID() != 0 {
			t.Errorf("PID = %d after Stop", p.PID())
		}
	}
	if err := p.Stop(); err != nil {
		t.Errorf("Stop of what does not run: %v", err)
	}
	if err := p.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal to what does not run: %v, want %v", err, os.ErrProcessDone)
	}
	if err := p.retire(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Start after retirement: %v, want %v", err, ErrStopped)
	}
}

func TestProcessThatEndsEarlyExplainsItself(t *testing.T) {
	p := shellProcess(t, "echo flag provided but not defined; exit 3")
	p.ready = func(context.Context) error { return errors.New("nobody listens") }
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "flag provided but not defined") {
		t.Errorf("Start: %v, want the exit status and the log", err)
	}
}

func TestProcessThatIsNeverReadyIsKilled(t *testing.T) {
	p := shellProcess(t, "echo thinking; exec tail -f /dev/null")
	p.ready = func(context.Context) error { return errors.New("hook not finished") }
	p.timeout = 100 * time.Millisecond
	err := p.Start(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "hook not finished") {
		t.Errorf("Start: %v, want the deadline and the last answer", err)
	}
	if p.PID() != 0 {
		t.Error("it still runs")
	}
}

func TestKillReachesTheWholeGroup(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "alive") // the child says so, else the kill might come before there is a child
	p := shellProcess(t, "(touch "+alive+"; exec tail -f /dev/null) & wait")
	p.ready = func(context.Context) error { _, err := os.Stat(alive); return err }
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	group := p.PID()
	p.Kill()
	eventually(t, "the group is gone", func() error { return groupGone(group) })
}

func TestTailOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tailOf(path, 4); got != "6789" {
		t.Errorf("tail of a long log = %q", got)
	}
	if got := tailOf(path, 100); got != "0123456789" {
		t.Errorf("tail of a short log = %q", got)
	}
	if got := tailOf(path+"x", 4); !strings.Contains(got, "no such file") {
		t.Errorf("tail of no log = %q", got)
	}
}
