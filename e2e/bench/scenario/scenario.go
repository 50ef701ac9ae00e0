// Package scenario has the scenarios of the benchmark. Each stands on an environment of its own,
// measures, and adds rows; docs/performance.md says what each of them shows.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// poolName is that of the scenarios' pool.
const poolName = "bench"

// Scenario is one of the benchmark.
type Scenario struct {
	Name string
	// What it measures, in a few words.
	What string
	// Limit is its hang guard: several times what it takes.
	Limit time.Duration
	Play  func(context.Context, *Run) error
}

// All are the scenarios in the order in which they are played.
func All() []Scenario {
	return []Scenario{
		{"pod", "one pod: created until StartInstances is sent", 15 * time.Minute, podScenario},
		{"ready", "a kubelet's Ready until the first waiting pod is bound", 12 * time.Minute, readyScenario},
		{"burst", "bursts of pods: created until the last start is sent, and how many starts and calls", 12 * time.Minute,
			burstScenario},
		{"whole", "bursts from the first pod until all are bound, beside the same on running nodes", 40 * time.Minute,
			wholeScenario},
		{"trickle", "a steady trickle of pods: starts, calls and latencies", 3 * time.Minute, trickleScenario},
		{"rate", "pods per second on running nodes, with the extender and without", 15 * time.Minute, rateScenario},
		{"packing", "the generated profile with prioritizeVerb and without: pods per second, and nodes in use", 12 * time.Minute,
			packingScenario},
		{"filter", "/filter and /prioritize over HTTPS, by the number of candidates", 5 * time.Minute, filterScenario},
		{"ledger", "/filter by the number of starting nodes", 3 * time.Minute, ledgerScenario},
		{"scaledown", "many nodes that empty at once: until all are standby", 4 * time.Minute, scaledownScenario},
		{"calls", "Describe calls per minute, by the number of nodes", 5 * time.Minute, callsScenario},
		{"memory", "resident memory and processor time with many nodes and pods", 7 * time.Minute, memoryScenario},
		{"plugin", "bytes that the commands of kubectl stratos receive in a large cluster", 15 * time.Minute, pluginScenario},
		{"restart", "a restart with many nodes: until it serves", 5 * time.Minute, restartScenario},
	}
}

// Chosen are the scenarios of the names, separated by commas, in the order of All; all for none.
func Chosen(names string) ([]Scenario, error) {
	if names == "" {
		return All(), nil
	}
	var chosen []Scenario
	wanted := strings.Split(names, ",")
	for _, s := range All() {
		if at := slices.Index(wanted, s.Name); at >= 0 {
			chosen, wanted = append(chosen, s), slices.Delete(wanted, at, at+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("no scenario is called %s", strings.Join(wanted, ", "))
	}
	return chosen, nil
}

// Run is one play of a scenario.
type Run struct {
	// Scale shrinks the sizes: 1 is the design's.
	Scale float64
	// Progress takes what is being done; may be nil.
	Progress io.Writer
	// Profiles is the folder for profiles, with one for each scenario; empty for none.
	Profiles string

	name string
	rows []figures.Row
	// series are those of the rows.
	series []figures.Series
}

// Play plays a scenario as the run says and returns its rows and series. What went wrong is a row
// too: the others are played all the same.
func Play(ctx context.Context, s Scenario, with Run) ([]figures.Row, []figures.Series) {
	r := &with
	r.name = s.Name
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, fmt.Errorf("not over within %s", s.Limit))
	defer cancel()
	if err := r.play(ctx, s); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		r.add(figures.Row{Name: s.What, Failure: shortened(err.Error())})
		r.say("%v", err)
	}
	return r.rows, r.series
}

func (r *Run) play(ctx context.Context, s Scenario) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.Play(ctx, r)
}

// shortened is what a cell of a table takes.
func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}

// n is the size at the run's scale, at least the least.
func (r *Run) n(full, least int) int {
	return min(full, max(least, int(math.Round(float64(full)*r.Scale))))
}

// steps are an eighth, a quarter, half and all of the size: by them a scenario shows how its cost
// grows.
func (r *Run) steps(full, least int) []int {
	whole := r.n(full, least)
	steps := []int{whole / 8, whole / 4, whole / 2, whole}
	steps = slices.DeleteFunc(steps, func(n int) bool { return n < 1 })
	return slices.Compact(steps)
}

func (r *Run) add(rows ...figures.Row) {
	for _, row := range rows {
		row.Scenario = r.name
		r.rows = append(r.rows, row)
	}
}

// keep adds a series of the name.
func (r *Run) keep(name string, s figures.Series) {
	s.Scenario, s.Name = r.name, name
	r.series = append(r.series, s)
}

func (r *Run) say(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "  "+r.name+": "+format+"\n", args...)
	}
}

// on plays on an environment, which ends with the scenario.
func (r *Run) on(ctx context.Context, o env.Options, play func(*env.Env) error) error {
	o.Progress = r.Progress
	if r.Profiles != "" {
		o.Profiles = filepath.Join(r.Profiles, r.name)
	}
	o.ControlPlane.LogDir = "" // ends with the environment
	s, err := env.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil { // what was measured was measured
			r.say("end: %v", err)
		}
	}()
	return play(s)
}

// withFloor starts the scheduler that asks Stratos and the one that asks the floor.
func withFloor(ctx context.Context, s *env.Env) error {
	_, err := s.StartOurs(ctx)
	if err != nil {
		return err
	}
	_, err = s.StartFloor(ctx)
	return err
}

// onEC2 is an environment whose cloud takes EC2's protocol, with EC2's published limit on starts.
func onEC2() env.Options { return env.Options{Provider: framework.ProviderAWS} }

func usage(p *controlplane.Process) (env.Usage, error) { return env.UsageOf(p.PID()) }

// exactly is the row that a number has to be one figure; more is missed, and so is less.
func exactly(name string, got, want int, note string) figures.Row {
	row := figures.Row{Name: name, Ours: figure(figures.Number(got)), Note: note}
	row.Target = &figures.Target{Words: fmt.Sprintf("%d", want), Limit: float64(want)}
	if got < want {
		row.Target.Least = true
	}
	return row
}

func figure(f figures.Figure) *figures.Figure { return &f }

// atMost and atLeast are targets in the unit of the figure.
func atMost(limit float64, format string, args ...any) *figures.Target {
	return &figures.Target{Words: fmt.Sprintf(format, args...), Limit: limit}
}

func atLeast(limit float64, format string, args ...any) *figures.Target {
	return &figures.Target{Words: fmt.Sprintf(format, args...), Limit: limit, Least: true}
}
