package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// columns is the width that everything fits in.
const columns = 80

// scene is what there is at one moment.
type scene struct {
	Pool      v1alpha1.NodePoolStatus
	Instances map[provider.InstanceState]int
	Pods      podCounts
}

// count is one number with its name.
type count struct {
	name  string
	value int
}

func (s scene) nodes() []count {
	return []count{
		{"warmup", int(s.Pool.Warmup)}, {"standby", int(s.Pool.Standby)}, {"starting", int(s.Pool.Starting)},
		{"running", int(s.Pool.Running)}, {"stopping", int(s.Pool.Stopping)},
	}
}

func (s scene) instances() []count {
	return []count{
		{"pending", s.Instances[provider.InstancePending]}, {"running", s.Instances[provider.InstanceRunning]},
		{"stopping", s.Instances[provider.InstanceStopping]}, {"stopped", s.Instances[provider.InstanceStopped]},
	}
}

func (s scene) pods() []count {
	return []count{{"waiting", s.Pods.Waiting}, {"bound", s.Pods.Bound}, {"running", s.Pods.Running}}
}

// String is one line; what is zero is left out.
func (s scene) String() string {
	return fmt.Sprintf("nodes %s; instances %s; pods %s", nonZero(s.nodes()), nonZero(s.instances()), nonZero(s.pods()))
}

func nonZero(counts []count) string {
	var parts []string
	for _, c := range counts {
		if c.value != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.value, c.name))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// progress is how far a step is: not begun, begun (from is set), done (took is set too).
type progress struct {
	name, what string
	from       time.Time
	took       time.Duration
}

// current is the name of the step that is being played.
func current(board []progress) string {
	name := ""
	for _, p := range board {
		if !p.from.IsZero() {
			name = p.name
		}
	}
	return name
}

// frame is the live table.
func frame(board []progress, s scene, elapsed time.Duration) []string {
	const title = "Stratos demo"
	lines := []string{title + fmt.Sprintf("%*s", columns-len(title)-1, "elapsed "+seconds(elapsed)), ""}
	for _, p := range board {
		mark, took := "", ""
		switch {
		case p.took != 0:
			mark, took = "done", seconds(p.took)
		case !p.from.IsZero():
			mark = "now"
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %-5s %-8s %-52s%10s", mark, p.name, p.what, took), " "))
	}
	for _, row := range []struct {
		title  string
		counts []count
	}{{"NodePool " + poolName, s.nodes()}, {"Cloud instances", s.instances()}, {"Pods", s.pods()}} {
		head, values := fmt.Sprintf("  %-18s", row.title), strings.Repeat(" ", 20)
		for _, c := range row.counts {
			head += fmt.Sprintf("%10s", c.name)
			values += fmt.Sprintf("%10d", c.value)
		}
		lines = append(lines, "", head, values)
	}
	return append(lines, "")
}

// plainLine is the same as one line, without the time in front, so that equal lines mean that
// nothing changed.
func plainLine(board []progress, s scene, elapsed time.Duration) plain {
	return plain{at: elapsed, text: fmt.Sprintf("%-8s %s", current(board), s)}
}

// plain is a line of what happens; at does not make it different.
type plain struct {
	at   time.Duration
	text string
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// lastLines are at most n lines from the end of the text.
func lastLines(text string, n int) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}
