package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// crowded has numbers far wider than those of the play.
func crowded() scene {
	const many = 123456
	return scene{
		Pool: v1alpha1.NodePoolStatus{Standby: many, Warmup: many, Starting: many, Running: many, Stopping: many},
		Instances: map[provider.InstanceState]int{
			provider.InstancePending: many, provider.InstanceRunning: many, provider.InstanceStopping: many,
			provider.InstanceStopped: many,
		},
		Pods: podCounts{Waiting: many, Bound: many, Running: many},
	}
}

// realBoard is the board of the play in its widest form: every step is done and took long.
func realBoard() []progress {
	var board []progress
	for _, s := range (&stage{}).steps() {
		board = append(board, progress{name: s.name, what: s.what, from: at(0), took: 1234 * time.Second})
	}
	return board
}

func TestFrameFitsEightyColumns(t *testing.T) {
	lines := frame(realBoard(), crowded(), 12345*time.Second)
	for _, l := range append(lines, perfect().summary()...) {
		if len(l) >= columns { // a full last column makes some terminals wrap
			t.Errorf("%d columns: %q", len(l), l)
		}
	}
	if len(lines) >= 24 {
		t.Errorf("%d lines, but the smallest usual terminal has 24", len(lines))
	}
}

func TestFrameSaysHowFarItIs(t *testing.T) {
	board := []progress{
		{name: "warm up", what: "w", from: at(0), took: 1500 * time.Millisecond},
		{name: "burst", what: "b", from: at(1500)},
		{name: "run", what: "r"},
	}
	text := strings.Join(frame(board, scene{Pool: v1alpha1.NodePoolStatus{Standby: 7}}, 2*time.Second), "\n")
	for _, want := range []string{"elapsed 2.0s", "  done  warm up  w", "1.5s\n", "\n  now   burst    b\n",
		"\n        run      r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := current(board); got != "burst" {
		t.Errorf("current step %q, want burst", got)
	}
}

func TestElsewhereOneLinePerChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out, board := newScreen(file), []progress{{name: "warm up", from: at(0)}}
	before := scene{Pool: v1alpha1.NodePoolStatus{Warmup: 2},
		Instances: map[provider.InstanceState]int{provider.InstanceRunning: 2}}
	after := scene{Pool: v1alpha1.NodePoolStatus{Standby: 2}, Pods: podCounts{Waiting: 3}}
	for i, s := range []scene{before, before, after, after} {
		elapsed := time.Duration(i) * time.Second
		out.show(frame(board, s, elapsed), plainLine(board, s, elapsed))
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `   0.0s  warm up  nodes 2 warmup; instances 2 running; pods none
   2.0s  warm up  nodes 2 standby; instances none; pods 3 waiting
`
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestRedraw(t *testing.T) {
	tests := map[string]struct {
		table                []string
		drawn, width, height int
		want                 string
	}{
		"first time":           {[]string{"a", "b"}, 0, 80, 24, "a\x1b[K\nb\x1b[K\n\x1b[J"},
		"over the last one":    {[]string{"a", "b"}, 2, 80, 24, "\x1b[2A\ra\x1b[K\nb\x1b[K\n\x1b[J"},
		"narrow":               {[]string{"abcdef"}, 1, 4, 24, "\x1b[1A\rabc\x1b[K\n\x1b[J"},
		"low":                  {[]string{"a", "b", "c"}, 1, 80, 2, "\x1b[1A\ra\x1b[K\n\x1b[J"},
		"no room for anything": {[]string{"a"}, 0, 1, 1, "\x1b[J"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redraw(tt.table, tt.drawn, tt.width, tt.height); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLastLines(t *testing.T) {
	tests := map[string]struct {
		text string
		n    int
		want string
	}{
		"fewer than asked for": {"a\nb\n", 5, "a|b"},
		"more":                 {"a\nb\nc\n", 2, "b|c"},
		"no newline at end":    {"a\nb", 1, "b"},
		"nothing":              {"", 3, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(lastLines(tt.text, tt.n), "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
