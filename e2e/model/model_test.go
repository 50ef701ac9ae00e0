package model

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain adds the flags. Tests look them up by name, because a variable for a flag would be a
// global one.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1600) // runs leave much behind: at 400, an eighth more of the time goes into collecting it
	flag.Uint64("runs", 2000, "how many seeds are played")
	flag.Uint64("seed", 1, "the first seed")
	flag.Parse()
	os.Exit(m.Run())
}

func number(t *testing.T, name string) uint64 {
	t.Helper()
	value, ok := flag.Lookup(name).Value.(flag.Getter).Get().(uint64)
	if !ok {
		t.Fatalf("flag %s is no number", name)
	}
	return value
}

// TestStoredTraces plays what once broke an invariant.
func TestStoredTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stored traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			trace, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := Play(trace, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRandomWorlds plays the seeds in a few groups side by side.
func TestRandomWorlds(t *testing.T) {
	playWorlds(t, Generate, number(t, "runs"))
}

// TestReplicasToComeInRandomWorlds plays ReplicaSets that get their pods late, otherwise or never.
func TestReplicasToComeInRandomWorlds(t *testing.T) {
	playWorlds(t, GenerateBurst, number(t, "runs")/4)
}

func playWorlds(t *testing.T, generate func(seed uint64) Trace, runs uint64) {
	t.Helper()
	first := number(t, "seed")
	const groups = uint64(4)
	for g := range groups {
		t.Run(fmt.Sprintf("group %d", g+1), func(t *testing.T) {
			t.Parallel()
			for k := g; k < runs; k += groups {
				trace := generate(first + k)
				if err := Play(trace, nil); err != nil {
					t.Fatal(Report(trace, err))
				}
			}
		})
	}
}

// TestEqualSeedsGiveEqualRuns: or nothing that is found could be played again.
func TestEqualSeedsGiveEqualRuns(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		var journals [2][]string
		for k := range journals {
			if err := Play(Generate(seed), func(line string) { journals[k] = append(journals[k], line) }); err != nil {
				t.Fatal(err)
			}
		}
		if len(journals[0]) < 20 {
			t.Errorf("seed %d: only %d things happened", seed, len(journals[0]))
		}
		if diff := cmp.Diff(journals[0], journals[1]); diff != "" {
			t.Errorf("seed %d, first and second run:\n%s", seed, diff)
		}
	}
}

func TestParseReadsWhatStringWrites(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		trace := Generate(seed)
		back, err := Parse("# a comment\n\n" + trace.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trace, back); diff != "" {
			t.Errorf("seed %d:\n%s", seed, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"seed x":              "line 1",
		"\n10 fly":            `line 2: no operation is called "fly"`,
		"soon pods":           "line 1",
		"10 pods 99":          "pods: argument 1 is 99, allowed is 0 to 4",
		"10 pods 1 2 3 4 5 6": "at most 4 numbers",
		"10":                  "milliseconds, operation",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestShrinkKeepsWhatBreaks(t *testing.T) {
	trace := Generate(7)
	trace.Operations = append(trace.Operations, Operation{Name: "kill", Args: [4]int{3}})
	trace.Operations = append(trace.Operations, Generate(8).Operations...)
	breaks := func(o Trace) bool {
		return slices.ContainsFunc(o.Operations, func(o Operation) bool { return o.Name == "kill" && o.Args[0] == 3 })
	}
	got := Shrink(trace, 300, breaks)
	if len(got.Operations) != 1 || !breaks(got) {
		t.Errorf("shrunk to\n%s", got)
	}
}

// TestEveryOperationIsDrawn: one that is never drawn finds nothing.
func TestEveryOperationIsDrawn(t *testing.T) {
	drawn := map[string]int{}
	for seed := uint64(1); seed <= 2000; seed++ {
		for _, o := range slices.Concat(Generate(seed).Operations, GenerateBurst(seed).Operations) {
			drawn[o.Name]++
		}
	}
	for name := range operations() {
		if drawn[name] < 50 {
			t.Errorf("%s was drawn %d times in 2000 traces", name, drawn[name])
		}
	}
}
