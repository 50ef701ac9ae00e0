package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func milli(values ...int) []time.Duration {
	samples := make([]time.Duration, 0, len(values))
	for _, v := range values {
		samples = append(samples, time.Duration(v)*time.Millisecond)
	}
	return samples
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]int, 0, 100)
	for i := range 100 {
		hundred = append(hundred, 100-i)
	}
	tests := map[string]struct {
		samples []time.Duration
		p       int
		want    time.Duration
	}{
		"no samples":                     {nil, 50, 0},
		"one sample is every percentile": {milli(7), 1, 7 * time.Millisecond},
		"half of an even number":         {milli(4, 1, 3, 2), 50, 2 * time.Millisecond},
		"half of an odd number":          {milli(3, 1, 2), 50, 2 * time.Millisecond},
		"p99 of few is the largest":      {milli(1, 9, 2, 3, 4, 5, 6, 7), 99, 9 * time.Millisecond},
		"p99 of a hundred is the 99th":   {milli(hundred...), 99, 99 * time.Millisecond},
		"p100 is the largest":            {milli(hundred...), 100, 100 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.samples)
			if got := percentile(tt.samples, tt.p); got != tt.want {
				t.Errorf("percentile(%v, %d) = %s, want %s", tt.samples, tt.p, got, tt.want)
			}
			if !slices.Equal(before, tt.samples) {
				t.Errorf("the samples were changed: %v", tt.samples)
			}
		})
	}
}

// perfect is a report of a play in which all happened.
func perfect() report {
	return report{
		Pods: 5, Ran: 5, PerNode: 2, Started: 3, PoolSize: 4, Standby: 4, Stopped: 4,
		ToStart: milli(11, 12, 113), SinceAsked: milli(1, 2, 3), ToBound: milli(4, 5, 6),
	}
}

func TestVerdictNamesWhatIsMissing(t *testing.T) {
	if err := perfect().verdict(); err != nil {
		t.Fatalf("verdict of a perfect play: %v", err)
	}
	tests := map[string]struct {
		spoil func(*report)
		want  string
	}{
		"a step did not end": {func(r *report) { r.Missing = []string{"run", "stop"} },
			"steps not finished: run, stop"},
		"a pod did not run": {func(r *report) { r.Ran = 4 }, "4 of 5 pods ran"},
		"no pod was to run": {func(r *report) {
			r.Pods, r.Ran, r.Started, r.ToStart, r.ToBound = 0, 0, 0, nil,
				nil
		}, "0 of 0 pods ran"},
		"one node too many was started": {func(r *report) { r.Started = 4 }, "4 nodes started, 3 needed"},
		"one node too few was started":  {func(r *report) { r.Started = 2 }, "2 nodes started, 3 needed"},
		"the need is not known":         {func(r *report) { r.PerNode = 0 }, "how many nodes are needed is not known"},
		"a start without its pod":       {func(r *report) { r.ToStart = milli(1, 2) }, "the pod is known of 2 of 3 starts"},
		"a node without Ready or pod": {func(r *report) { r.ToBound = nil },
			"Ready and a pod were seen of 0 of 3 started nodes"},
		"a node is not standby again": {func(r *report) { r.Standby = 3 }, "3 of 4 nodes are standby at the end"},
		"an instance still runs":      {func(r *report) { r.Stopped = 3 }, "3 of 4 instances are stopped at the end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := perfect()
			tt.spoil(&r)
			err := r.verdict()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("verdict: %v, want %q in it", err, tt.want)
			}
			if summary := strings.Join(r.summary(), "\n"); !strings.Contains(summary, "FAIL") ||
				strings.Contains(summary, "PASS") {
				t.Errorf("the summary does not say FAIL:\n%s", summary)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	got := strings.Join(perfect().summary(), "\n")
	want := `Summary
  pods                            5 created, 5 ran
  nodes                           3 started, 3 needed (5 pods, 2 per node)
  pod created -> start requested  p50  12.0 ms   p99 113.0 ms   (n=3)
    since the scheduler asked     p50   2.0 ms   p99   3.0 ms   (n=3)
  node Ready -> pod bound         p50   5.0 ms   p99   6.0 ms   (n=3)
  at the end                      4 of 4 nodes standby, 4 instances stopped
  result                          PASS: all of it happened
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if empty := strings.Join((report{}).summary(), "\n"); !strings.Contains(empty, "not measured") {
		t.Errorf("a report without samples:\n%s", empty)
	}
}

func TestPerNode(t *testing.T) {
	tests := map[string]struct {
		pod, node string
		want      int // 0: an error
	}{
		"two and a rest":      {"1500m", "4", 2},
		"exactly four":        {"1", "4", 4},
		"none fits":           {"5", "4", 0},
		"the node is unknown": {"1", "0", 0},
		"the pod is nothing":  {"0", "4", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := perNode(resource.MustParse(tt.pod), resource.MustParse(tt.node))
			if got != tt.want || (err != nil) != (tt.want == 0) {
				t.Errorf("perNode(%s, %s) = %d, %v, want %d", tt.pod, tt.node, got, err, tt.want)
			}
		})
	}
}
