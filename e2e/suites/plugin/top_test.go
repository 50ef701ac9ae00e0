package plugin

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/top"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// terminal is a pseudo-terminal whose other end is an emulator of one.
type terminal struct {
	screen *vt.SafeEmulator
	// program is the end that the program under test has; user the other.
	program, user *os.File
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	user, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(user, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{screen: vt.NewSafeEmulator(width, height), program: program, user: user}
	go io.Copy(term.screen, user) //nolint:errcheck // it ends with the terminal
	go io.Copy(user, term.screen) //nolint:errcheck // the emulator's answers to queries
	t.Cleanup(func() { program.Close(); user.Close() })
	return term
}

var styles = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// text is what the screen shows, without styles.
func (s *terminal) text() string {
	var lines []string
	for line := range strings.SplitSeq(styles.ReplaceAllString(s.screen.Render(), ""), "\n") {
		lines = append(lines, strings.TrimRight(line, " \r"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// await waits until the screen shows the text.
func (s *terminal) await(t *testing.T, want string) {
	t.Helper()
	assert.Eventually(t, "screen with "+want, func(context.Context) (string, error) { return s.text(), nil },
		func(text string) bool { return strings.Contains(text, want) })
}

func (s *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.user.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// shownData has a pool of each kind, starts that are on time and late, and pods.
func shownData() top.Data {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	return top.Data{
		Context: "production", Now: now,
		Pools: []top.Pool{
			{Name: "general", Status: "Ready", Running: 31, Starting: 2, Standby: 12, Warmup: 3, Other: 1, Size: 100,
				Cost: 12.3456, Currency: "USD"},
			{Name: "gpu-h100", Status: "Degraded", Running: 2, Size: 8},
			{Name: "ci-runners", Status: "Ready", Starting: 1, Standby: 9, Size: 10, Cost: 0.1, Currency: "USD"},
			{Name: "batch", Status: "Paused", Standby: 4, Size: 40},
		},
		Starts: []top.Start{
			{Node: "ip-10-0-12-7.ec2.internal", Pool: "general", Since: ago(8 * time.Second), Usual: 14 * time.Second},
			{Node: "ip-10-0-31-9.ec2.internal", Pool: "general", Since: ago(95 * time.Second), Usual: 14 * time.Second},
			{Node: "ip-10-0-40-2.ec2.internal", Pool: "ci-runners", Since: ago(time.Second)},
		},
		Pods: []top.Pod{
			{Name: "shop/web-7d4b9", Cause: "Claimed", Since: ago(9 * time.Second), Why: "starting for 8s, usually 14s"},
			{Name: "ml/train-0", Cause: "Unavailable", Since: ago(26 * time.Minute),
				Why: "pool gpu-h100: zone us-east-1a has no capacity for p5.48xlarge until 2026-03-01T12:04:00Z; and 3 more"},
			{Name: "ci/runner-x2k", Cause: "Launching", Since: ago(40 * time.Second), Why: "pool batch is paused"},
		},
	}
}

// TestTopOnATerminal: the screens of two sizes, and what the keys do.
func TestTopOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for name, size := range map[string][2]int{"80x24": {80, 24}, "160x50": {160, 50}} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(t, size[0], size[1])
			ended := make(chan error, 1)
			go func() { ended <- top.Run(t.Context(), term.program, term.program, shownData, make(chan struct{})) }()
			term.await(t, "q quit")
			golden(t, "top-"+name+".txt", term.text())
			term.press(t, "s")
			term.await(t, "sort: status")
			term.press(t, "/gpu\r")
			term.await(t, "filter: gpu   q quit")
			golden(t, "top-"+name+"-filtered.txt", term.text())
			term.press(t, "q")
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTopWithoutColor: NO_COLOR leaves no color, another terminal has some.
func TestTopWithoutColor(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Setenv("TERM", "xterm-256color")
		t.Setenv("NO_COLOR", map[bool]string{true: "1"}[without])
		term := newTerminal(t, 80, 24)
		ended := make(chan error, 1)
		go func() { ended <- top.Run(t.Context(), term.program, term.program, shownData, make(chan struct{})) }()
		term.await(t, "q quit")
		if colored := strings.Contains(term.screen.Render(), "\x1b[32m"); colored == without {
			t.Errorf("NO_COLOR %t, and colors: %t", without, colored)
		}
		term.press(t, "q")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// golden compares with a file, which UPDATE=1 writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("screen %s (-want +got):\n%s", name, diff)
	}
}
