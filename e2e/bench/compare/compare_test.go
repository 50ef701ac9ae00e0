package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

func TestParsePlan(t *testing.T) {
	got, err := parsePlan("1x10,50x3,500x2,1000x2")
	want := []stage{{1, 10}, {50, 3}, {500, 2}, {1000, 2}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stage{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{"", "1", "1x", "x1", "0x1", "1x0", "1x10,", "9999x1", "-1x2", "1X20"} {
		t.Run(bad, func(t *testing.T) {
			if got, err := parsePlan(bad); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	row := func(ours float64, failure string) figures.Report {
		return figures.Report{Rows: []figures.Row{
			{Ours: &figures.Figure{Value: 99, Unit: figures.MiB}},
			{Name: "1 pods created -> first machine asked for, p50", Ours: &figures.Figure{Value: ours, Unit: figures.Seconds},
				Target: &figures.Target{Limit: 0.05}, Failure: failure},
			{Name: "500 pods created -> last machine asked for, p50", Ours: &figures.Figure{Value: 15, Unit: figures.Seconds},
				Target: &figures.Target{Limit: 6}},
		}}
	}
	if err := verdict(row(0.05, "")); err != nil {
		t.Errorf("twenty times sooner: %v", err)
	}
	for name, report := range map[string]figures.Report{"later": row(0.06, ""), "not measured": row(0.01, "hung")} {
		t.Run(name, func(t *testing.T) {
			if verdict(report) == nil {
				t.Error("want an error")
			}
		})
	}
}

func TestNodesFor(t *testing.T) {
	for pods, want := range map[int]int{1: 1, 3: 1, 4: 2, 500: 167} {
		if got := nodesFor(pods); got != want {
			t.Errorf("%d pods need %d nodes, want %d", pods, got, want)
		}
	}
}
