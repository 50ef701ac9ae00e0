package scenario

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

// TestSmallRuns plays scenarios in small on the real control plane: everything is measured, and
// each burst starts just the nodes that it needs. Durations are not checked.
func TestSmallRuns(t *testing.T) {
	for name, test := range map[string]struct {
		scale float64
		// exact are the rows of numbers that must be met.
		exact []string
	}{
		"pod":    {0.005, []string{"starts for single pods"}},
		"plugin": {0.01, nil},
		"burst":  {0.02, []string{"starts for 5 pods", "starts for 10 pods", "starts for 20 pods"}},
		"whole": {0.02, []string{"4 pods at once, extender: starts", "20 pods at once, extender: starts",
			"20 pods by a Deployment, extender: starts", "20 pods at once, watch: starts",
			"20 pods by a Deployment, watch: starts"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen, err := Chosen(name)
			if err != nil {
				t.Fatal(err)
			}
			rows, series := Play(t.Context(), chosen[0], Run{Scale: test.scale, Progress: t.Output()})
			for _, s := range series {
				last := len(s.Bound) - 1
				if last < 1 || len(s.Pending) != len(s.Bound) || len(s.Starting) != len(s.Bound) || s.Pending[last] != 0 ||
					s.Bound[last] == 0 {
					t.Errorf("series %+v", s)
				}
			}
			for _, row := range rows {
				if row.Verdict() == figures.NotMeasured {
					t.Errorf("%s: not measured: %s", row.Name, row.Failure)
				}
			}
			for _, want := range test.exact {
				at := slices.IndexFunc(rows, func(r figures.Row) bool { return r.Name == want })
				if at < 0 {
					t.Errorf("no row %q", want)
				} else if r := rows[at]; r.Verdict() != figures.Met {
					t.Errorf("%s: %s, want %s", r.Name, r.Ours, r.Target.Words)
				}
			}
		})
	}
}

// TestWhatFailsIsARow: a scenario that fails, panics or hangs costs its own rows and nothing else.
func TestWhatFailsIsARow(t *testing.T) {
	measured := func(r *Run) { r.add(figures.Row{Name: "first", Ours: figure(figures.Number(1))}) }
	for name, test := range map[string]struct {
		play func(context.Context, *Run) error
		want string
	}{
		"an error": {func(_ context.Context, r *Run) error { measured(r); return errors.New("no control plane") },
			"no control plane"},
		"a panic": {func(_ context.Context, r *Run) error { measured(r); panic("index out of range") },
			"panic: index out of range"},
		"a hang": {func(ctx context.Context, r *Run) error { measured(r); <-ctx.Done(); return ctx.Err() },
			"not over within"},
		"words of a novel": {func(_ context.Context, r *Run) error {
			measured(r)
			return errors.New(strings.Repeat("long ",
				1000))
		}, "long long"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, _ := Play(t.Context(), Scenario{Name: "x", What: "what", Limit: 100 * time.Millisecond, Play: test.play},
				Run{Scale: 1})
			if len(rows) != 2 || rows[0].Verdict() != figures.Shown || rows[1].Verdict() != figures.NotMeasured {
				t.Fatalf("rows %+v", rows)
			}
			if got := rows[1]; got.Scenario != "x" || got.Name != "what" || !strings.Contains(got.Failure, test.want) ||
				len(got.Failure) > 250 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestChosen(t *testing.T) {
	for names, want := range map[string]string{"": "", "filter,pod": "pod filter", "burst": "burst"} {
		t.Run(names, func(t *testing.T) {
			chosen, err := Chosen(names)
			got := make([]string, len(chosen))
			for i, s := range chosen {
				got[i] = s.Name
			}
			if want == "" {
				want = strings.Join(got, " ")
			}
			if err != nil || strings.Join(got, " ") != want || len(chosen) == 0 {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := Chosen("pod,sprint"); err == nil || !strings.Contains(err.Error(), "sprint") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestSizes(t *testing.T) {
	r := &Run{Scale: 1}
	if diff := cmp.Diff([]int{125, 250, 500, 1000}, r.steps(1000, 8)); diff != "" {
		t.Error(diff)
	}
	r.Scale = 0.01
	if got := r.n(1000, 20); got != 20 {
		t.Errorf("the least of a size is %d, want 20", got)
	}
	if diff := cmp.Diff([]int{1, 2, 4, 8}, r.steps(100, 8)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 2, 4}, r.steps(100, 4)); diff != "" {
		t.Error(diff)
	}
}

func TestBurstRowsJudgeByTheWorst(t *testing.T) {
	floor := figures.Samples{time.Second, time.Second, time.Second}
	good := burstTimes{last: time.Second, starts: 25, requests: 6, span: time.Second}
	verdicts := func(ours ...burstTimes) string {
		var all []string
		for _, row := range burstRows(100, 27, floor, ours) {
			all = append(all, string(row.Verdict()))
		}
		return strings.Join(all, " ")
	}
	for name, test := range map[string]struct {
		second burstTimes
		want   string
	}{
		"as good": {good, "met met met"},
		"one start too many": {burstTimes{last: time.Second, starts: 26, requests: 6, span: time.Second},
			"met missed met"},
		"one start too few": {burstTimes{last: time.Second, starts: 24, requests: 6, span: time.Second},
			"met missed met"},
		"a call too many for its time": {burstTimes{last: time.Second, starts: 25, requests: 8, span: time.Second},
			"met met missed"},
		"more calls in a longer time": {burstTimes{last: time.Second, starts: 25, requests: 8, span: 2 * time.Second},
			"met met met"},
		"one slow round is not judged": {burstTimes{last: time.Minute, starts: 25, requests: 6, span: time.Second},
			"met met met"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdicts(good, test.second, good); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	slow := burstTimes{last: 1800 * time.Millisecond, starts: 25, requests: 6, span: time.Second}
	if got := verdicts(slow, slow, good); got != "missed met met" {
		t.Errorf("two slow rounds of three: %s", got)
	}
}

func TestRepeatedStartsSayByWhichCall(t *testing.T) {
	at := time.Unix(1000, 0)
	one, two := env.Start{At: at, Instance: "i-1", Attempt: "a 1"}, env.Start{At: at, Instance: "i-2", Attempt: "a 1"}
	again := env.Start{At: at.Add(time.Second), Instance: "i-2", Attempt: "a 2"}
	if got := repeated([]env.Start{one, two}); got != "0 asked for again after the cloud had accepted them" {
		t.Errorf("none: %s", got)
	}
	want := `2 asked for again after the cloud had accepted them (i-2 after 1s: by "a 2" after "a 1")`
	if got := repeated([]env.Start{one, two, again, again}); got != want {
		t.Errorf("two: %s, want %s", got, want)
	}
}
