package env

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestTold: a function counts once with all that it calls, however often it stands in a stack, and
// by itself only where it is the innermost, inlined ones included.
func TestTold(t *testing.T) {
	work, loop, inlined := &profile.Function{ID: 1, Name: "work"}, &profile.Function{ID: 2, Name: "loop"},
		&profile.Function{ID: 3, Name: "inlined"}
	inner := &profile.Location{ID: 1, Line: []profile.Line{{Function: inlined}, {Function: work}}}
	outer := &profile.Location{ID: 2, Line: []profile.Line{{Function: loop}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{inner, outer, outer}, Value: []int64{3, 3e9}},
			{Location: []*profile.Location{outer}, Value: []int64{1, 1e9}},
		},
		DurationNanos: 10e9,
	}
	text, err := Told(p, "cpu", 1e9, "s")
	if err != nil {
		t.Fatal(err)
	}
	want := `cpu: 4.00 s in 10 s

by themselves
     3.00  75.0%  inlined
     1.00  25.0%  loop

with all that they call
     4.00 100.0%  loop
     3.00  75.0%  inlined
     3.00  75.0%  work
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if _, err := Told(p, "inuse_space", 1, "B"); err == nil || !strings.Contains(err.Error(), "inuse_space") {
		t.Errorf("a count that the profile has not: %v", err)
	}
}
