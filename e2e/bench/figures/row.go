package figures

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Unit is what a figure is counted in.
type Unit string

// The units.
const (
	Milliseconds Unit = "ms"
	Seconds      Unit = "s"
	MiB          Unit = "MiB"
	Megabytes    Unit = "MB"
	PerSecond    Unit = "/s"
	PerMinute    Unit = "/min"
	Cores        Unit = "cores"
	CPUSeconds   Unit = "s of cpu"
	Percent      Unit = "%"
	Count        Unit = ""
	Times        Unit = "x"
	// Exponents are those of Exponent.
	Exponents Unit = "exponent"
)

// Figure is a number with its unit.
type Figure struct {
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
}

// Millis is the duration in milliseconds, Secs in seconds.
func Millis(d time.Duration) Figure { return Figure{float64(d) / 1e6, Milliseconds} }

// Secs is the duration in seconds.
func Secs(d time.Duration) Figure { return Figure{d.Seconds(), Seconds} }

// Number is a count.
func Number(n int) Figure { return Figure{float64(n), Count} }

// String is a person's: three digits that mean something, whole numbers whole.
func (f Figure) String() string {
	text := digits(f.Value)
	switch f.Unit {
	case Count, Times, Percent, PerSecond, PerMinute:
		return text + string(f.Unit)
	case Exponents:
		return "n^" + strconv.FormatFloat(f.Value, 'f', 2, 64)
	default:
		return text + " " + string(f.Unit)
	}
}

func digits(v float64) string {
	size := math.Abs(v)
	switch {
	case v == math.Trunc(v) && size < 1e15, size >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Target is what a figure has to keep to.
type Target struct {
	// Words say it as the design does, with what it comes to in this run.
	Words string  `json:"words"`
	Limit float64 `json:"limit"`
	// Least: the figure must be at least the limit; else at most.
	Least bool `json:"least,omitempty"`
}

// Verdict is what a row says in the end.
type Verdict string

// The values of `Verdict`.
const (
	Met         Verdict = "met"
	Missed      Verdict = "missed"
	Shown       Verdict = "-" // there is no target
	NotMeasured Verdict = "NOT MEASURED"
)

// Row is one line of the table.
type Row struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	// Floor is what the same would take without Stratos, from the same run; nil where there is none.
	// Ours is nil where nothing was measured.
	Floor  *Figure `json:"floor,omitempty"`
	Ours   *Figure `json:"ours,omitempty"`
	Target *Target `json:"target,omitempty"`
	// Failure says why nothing was measured.
	Failure string `json:"failure,omitempty"`
	// Note is what else there is to know of the figure.
	Note string `json:"note,omitempty"`
}

// Verdict compares the figure with the target. A figure that is no number misses every target.
func (r Row) Verdict() Verdict {
	switch {
	case r.Failure != "" || r.Ours == nil:
		return NotMeasured
	case r.Target == nil:
		return Shown
	case r.Target.Least && r.Ours.Value >= r.Target.Limit, !r.Target.Least && r.Ours.Value <= r.Target.Limit:
		return Met
	}
	return Missed
}

// Ratio is ours by the floor; false where there is none.
func (r Row) Ratio() (float64, bool) {
	if r.Floor == nil || r.Ours == nil || r.Floor.Value == 0 || r.Floor.Unit != r.Ours.Unit {
		return 0, false
	}
	return r.Ours.Value / r.Floor.Value, true
}

// cells are those of the table, in the order of its head.
func (r Row) cells() []string {
	floor, ours, ratio, target := "-", "-", "-", "-"
	if r.Floor != nil {
		floor = r.Floor.String()
	}
	if r.Ours != nil {
		ours = r.Ours.String()
	}
	if v, ok := r.Ratio(); ok {
		ratio = fmt.Sprintf("%.2f", v)
	}
	if r.Target != nil {
		target = r.Target.Words
	}
	verdict := string(r.Verdict())
	if r.Failure != "" {
		verdict += ": " + r.Failure
	}
	return []string{r.Scenario, r.Name, floor, ours, ratio, target, verdict, r.Note}
}
