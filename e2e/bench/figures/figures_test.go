package figures

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	hundred := make(Samples, 100)
	for i := range hundred {
		hundred[99-i] = time.Duration(i+1) * time.Millisecond
	}
	for name, test := range map[string]struct {
		samples Samples
		q       float64
		want    time.Duration
	}{
		"none have none":                         {nil, 0.99, 0},
		"one is every quantile":                  {Samples{7}, 0.5, 7},
		"the median of two is the smaller":       {Samples{9, 3}, 0.5, 3},
		"p50 of a hundred, in any order":         {hundred, 0.5, 50 * time.Millisecond},
		"p99 of a hundred is the last but one":   {hundred, 0.99, 99 * time.Millisecond},
		"p100 is the largest":                    {hundred, 1, 100 * time.Millisecond},
		"p0 is the smallest":                     {hundred, 0, time.Millisecond},
		"p99 of few is the largest, never below": {Samples{1, 2, 3}, 0.99, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.samples.Quantile(test.q); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if hundred[0] != 100*time.Millisecond {
		t.Error("the samples were sorted in place")
	}
}

func TestMedian(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		"none":                  {nil, 0},
		"an odd count":          {[]float64{9, 1, 5}, 5},
		"an even count":         {[]float64{4, 1, 2, 10}, 3},
		"an outlier is nothing": {[]float64{1, 1, 1000}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Median(test.values); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestExponent(t *testing.T) {
	of := func(f func(n float64) float64) []Point {
		var points []Point
		for _, n := range []float64{125, 250, 500, 1000} {
			points = append(points, Point{n, f(n)})
		}
		return points
	}
	for name, test := range map[string]struct {
		points []Point
		want   float64
		none   bool
	}{
		"linear":                        {points: of(func(n float64) float64 { return 3 * n }), want: 1},
		"quadratic":                     {points: of(func(n float64) float64 { return n * n / 7 }), want: 2},
		"independent of the size":       {points: of(func(float64) float64 { return 42 }), want: 0},
		"n log n is a little above one": {points: of(func(n float64) float64 { return n * math.Log(n) }), want: 1.17},
		"a cost of nothing is left out": {points: append(of(func(n float64) float64 { return n }), Point{2000, 0}), want: 1},
		"one point has no slope":        {points: []Point{{100, 1}}, none: true},
		"two of one size have none":     {points: []Point{{100, 1}, {100, 2}}, none: true},
		"no point":                      {none: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Exponent(test.points)
			if ok == test.none || math.Abs(got-test.want) > 0.01 {
				t.Errorf("got %v %t, want %v", got, ok, test.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	ours := func(v float64) *Figure { return &Figure{v, Milliseconds} }
	for name, test := range map[string]struct {
		row   Row
		want  Verdict
		ratio string
	}{
		"at most, kept to": {row: Row{Ours: ours(5), Floor: ours(4), Target: &Target{Limit: 5}}, want: Met,
			ratio: "1.25"},
		"at most, passed":              {row: Row{Ours: ours(5.1), Target: &Target{Limit: 5}}, want: Missed},
		"at least, reached":            {row: Row{Ours: ours(90), Target: &Target{Limit: 90, Least: true}}, want: Met},
		"at least, not reached":        {row: Row{Ours: ours(89), Target: &Target{Limit: 90, Least: true}}, want: Missed},
		"no target":                    {row: Row{Ours: ours(5)}, want: Shown},
		"nothing measured":             {row: Row{Target: &Target{Limit: 5}}, want: NotMeasured},
		"a failure outweighs a figure": {row: Row{Ours: ours(5), Failure: "hung"}, want: NotMeasured},
		"no number misses at most":     {row: Row{Ours: ours(math.NaN()), Target: &Target{Limit: 5}}, want: Missed},
		"no number misses at least too": {row: Row{Ours: ours(math.NaN()), Target: &Target{Limit: 5, Least: true}},
			want: Missed},
		"a floor of another unit": {row: Row{Ours: ours(5), Floor: &Figure{1, Seconds}}, want: Shown},
		"a floor of nothing":      {row: Row{Ours: ours(5), Floor: ours(0)}, want: Shown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.row.Verdict(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			ratio := test.row.cells()[4]
			if test.ratio == "" {
				test.ratio = "-"
			}
			if ratio != test.ratio {
				t.Errorf("ratio %s, want %s", ratio, test.ratio)
			}
		})
	}
}

func TestFigures(t *testing.T) {
	for want, f := range map[string]Figure{
		"5.25 ms":   Millis(5250 * time.Microsecond),
		"12.5 ms":   Millis(12500 * time.Microsecond),
		"6.40 s":    Secs(6400 * time.Millisecond),
		"250":       Number(250),
		"412/s":     {412.4, PerSecond},
		"99.5%":     {99.5, Percent},
		"n^1.02":    {1.0234, Exponents},
		"331 MiB":   {330.7, MiB},
		"0.0412 ms": {0.04123, Milliseconds},
		"0 ms":      {0, Milliseconds},
		"0.062 s":   Secs(62 * time.Millisecond),
		"-3 MiB":    {-3, MiB},
		"4/min":     {4, PerMinute},
		"NaN ms":    {math.NaN(), Milliseconds},
		"+Inf ms":   {math.Inf(1), Milliseconds},
	} {
		t.Run(want, func(t *testing.T) {
			if got := f.String(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func sample() Report {
	return Report{
		Began: time.Date(2026, 11, 22, 17, 40, 0, 0, time.UTC), Machine: "linux/amd64, 2 cores",
		Settings: []Setting{{"scale", "1"}, {"scheduler", strings.Repeat("word ", 20)}},
		Rows: []Row{
			{Scenario: "pod", Name: "p50", Floor: &Figure{5, Milliseconds}, Ours: &Figure{8, Milliseconds},
				Target: &Target{Words: "floor + 5 ms", Limit: 10}},
			{Scenario: "pod", Name: "starts", Ours: &Figure{3, Count}, Target: &Target{Words: "2", Limit: 2}, Note: "a | b"},
			{Scenario: "rate", Name: "pods per second", Failure: "hung\nforever"},
		},
	}
}

func TestMarkdown(t *testing.T) {
	want := `Taken 2026-11-22 17:40 UTC on linux/amd64, 2 cores.

* scale: 1
* scheduler: word word word word word word word word word word word word word word word word word
  word word word

| scenario | figure | floor | ours | ratio | target | verdict | note |
| --- | --- | --- | --- | --- | --- | --- | --- |
| pod | p50 | 5 ms | 8 ms | 1.60 | floor + 5 ms | met |  |
| pod | starts | - | 3 | - | 2 | missed | a / b |
| rate | pods per second | - | - | - | - | NOT MEASURED: hung forever |  |
`
	if diff := cmp.Diff(want, sample().Markdown()); diff != "" {
		t.Error(diff)
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 ||
		!strings.Contains(lines[3], "NOT MEASURED: hung forever") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Machine string
		Rows    []struct {
			Name, Verdict string
			Ratio         *float64
		}
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Rows) != 3 || read.Machine != "linux/amd64, 2 cores" {
		t.Fatalf("got %s", out.String())
	}
	if r := read.Rows[0]; r.Verdict != "met" || r.Ratio == nil || *r.Ratio != 1.6 {
		t.Errorf("first row %+v", r)
	}
	if r := read.Rows[2]; r.Verdict != "NOT MEASURED" || r.Ratio != nil {
		t.Errorf("last row %+v", r)
	}
}

func TestCount(t *testing.T) {
	got := map[Verdict]int{}
	for _, v := range []Verdict{Met, Missed, Shown, NotMeasured} {
		got[v] = sample().Count(v)
	}
	if diff := cmp.Diff(map[Verdict]int{Met: 1, Missed: 1, Shown: 0, NotMeasured: 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestGrown(t *testing.T) {
	row := Grown("growth", Milliseconds, []Point{{10, 1}, {100, 10}}, 1.15, "linear")
	if row.Verdict() != Met || row.Ours.String() != "n^1.00" || row.Note != "10: 1 ms, 100: 10 ms" {
		t.Errorf("a linear cost: %+v", row)
	}
	if row := Grown("growth", Milliseconds, []Point{{10, 1}, {100, 100}}, 1.15, "linear"); row.Verdict() != Missed {
		t.Errorf("a quadratic cost: %+v", row)
	}
	if row := Grown("growth", Milliseconds, []Point{{10, 1}}, 1.15, "linear"); row.Verdict() != NotMeasured {
		t.Errorf("one size: %+v", row)
	}
}

func TestInsert(t *testing.T) {
	page := "# Page\n\n<!-- bench:begin -->\nold\n<!-- bench:end -->\n\nafter\n"
	want := "# Page\n\n<!-- bench:begin -->\n\nnew\n\n<!-- bench:end -->\n\nafter\n"
	got, err := Insert(page, "bench", "new\n")
	if err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if again, err := Insert(got, "bench", "new\n"); err != nil || again != want {
		t.Errorf("a second time %q, %v", again, err)
	}
	for name, page := range map[string]string{
		"no markers":     "# Page\n",
		"no end":         "<!-- bench:begin -->\n",
		"another's":      "<!-- compare:begin -->\n<!-- compare:end -->\n",
		"the end first":  "<!-- bench:end -->\n<!-- bench:begin -->\n",
		"two beginnings": "<!-- bench:begin -->\n<!-- bench:begin -->\n<!-- bench:end -->\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Insert(page, "bench", "new"); err == nil || got != page {
				t.Errorf("got %q, want an error and the page as it was", got)
			}
		})
	}
}
