package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const inA = `,"Package":"` + ModulePath + `/a"`

// lines joins events to a record.
func lines(events ...string) string { return strings.Join(events, "\n") + "\n" }

func ran(test, action string) string {
	return `{"Action":"run"` + inA + `,"Test":"` + test + `"}` + "\n" +
		`{"Action":"` + action + `"` + inA + `,"Test":"` + test + `","Elapsed":0.1}`
}

func TestResultsAreChecked(t *testing.T) {
	sources := someTests(t)
	tests := map[string]struct {
		tests  string
		status string
		record string
		want   string
	}{
		"the test passed":                        {tests: "`TestOne`", record: lines(ran("TestOne", "pass"))},
		"the subtest passed":                     {tests: "`TestOne/a taint without a key`", record: lines(ran("TestOne/a_taint_without_a_key", "pass"))},
		"the test did not run":                   {tests: "`TestOne`", record: lines(ran("TestTwice", "pass")), want: "did not run"},
		"the subtest did not run":                {tests: "`TestOne/inner`", record: lines(ran("TestOne", "pass")), want: "did not run"},
		"the same name ran in another package":   {tests: "`b/TestTwice`", record: lines(ran("TestTwice", "pass")), want: "did not run"},
		"an open point's test did not run":       {tests: "`TestOne`", status: "open", record: lines(ran("TestTwice", "pass"))},
		"some other test was skipped":            {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), ran("TestTwice", "skip")), want: "TestTwice: was skipped"},
		"some other test failed":                 {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), ran("TestTwice", "fail")), want: "TestTwice: failed"},
		"a test passed when it ran again":        {tests: "`TestOne`", record: lines(ran("TestOne", "fail"), ran("TestOne", "pass"))},
		"a test failed twice":                    {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), ran("TestTwice", "fail"), ran("TestTwice", "fail")), want: "TestTwice: failed"},
		"a test never ended when it ran again":   {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), ran("TestTwice", "fail"), `{"Action":"run"`+inA+`,"Test":"TestTwice"}`), want: "TestTwice: failed"},
		"some other test never ended":            {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), `{"Action":"run"`+inA+`,"Test":"TestTwice"}`), want: "TestTwice: never ended"},
		"a package without tests is not skipped": {tests: "`TestOne`", record: lines(ran("TestOne", "pass"), `{"Action":"skip","Package":"`+ModulePath+`/c"}`)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status := tt.status
			if status == "" {
				status = "done"
			}
			rows, err := parseRows("| 2 | 1 | x | " + status + " | `make test` | " + tt.tests + " |")
			if err != nil {
				t.Fatal(err)
			}
			results := Results{}
			if err := results.read(strings.NewReader(tt.record)); err != nil {
				t.Fatal(err)
			}
			wantProblem(t, CheckResults(rows, "make test", sources, results), tt.want)
			if problems := CheckResults(rows, "make e2e-kind", sources, Results{}); len(problems) > 0 {
				t.Errorf("another command's run is asked for this point: %q", problems)
			}
		})
	}
}

func TestResultsNeedARecord(t *testing.T) {
	folder := t.TempDir()
	if _, err := ReadResults(folder); err == nil {
		t.Error("a folder without records was accepted")
	}
	if err := os.WriteFile(filepath.Join(folder, "a.jsonl"), []byte("torn {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResults(folder); err == nil {
		t.Error("a torn record was accepted")
	}
}

func TestRecorderShowsWhatAPersonNeeds(t *testing.T) {
	output := func(test, text string) string {
		return `{"Action":"output"` + inA + `,"Test":"` + test + `","Output":"` + text + `\n"}`
	}
	tests := map[string]struct {
		events  []string
		verbose bool
		want    string
	}{
		"a passing package is one line": {
			events: []string{output("TestQuick", "noise"), ran("TestQuick", "pass"), `{"Action":"output"` + inA + `,"Output":"PASS\n"}`,
				`{"Action":"pass"` + inA + `,"Elapsed":2}`},
			want: "ok   " + ModulePath + "/a 1 tests (2.0s)\n",
		},
		"a slow test gets a line": {
			events: []string{`{"Action":"pass"` + inA + `,"Test":"TestSlow","Elapsed":65}`},
			want:   "  pass TestSlow (65.0s)\n",
		},
		"a skipped test gets a line": {
			events: []string{`{"Action":"skip"` + inA + `,"Test":"TestOff"}`},
			want:   "  skip TestOff (0.0s)\n",
		},
		"a failing test shows all it printed": {
			events: []string{output("TestBad", "because"), output("TestGood", "noise"), `{"Action":"fail"` + inA + `,"Test":"TestBad","Elapsed":3}`},
			want:   "because\n  FAIL TestBad (3.0s)\n",
		},
		"a test that never ended shows what it printed": {
			events: []string{output("TestHung", "panic: timed out"), `{"Action":"fail"` + inA + `,"Elapsed":900}`},
			want:   "  unfinished TestHung\npanic: timed out\nFAIL " + ModulePath + "/a (900.0s)\n",
		},
		"what the package itself prints shows at once": {
			events: []string{`{"Action":"output"` + inA + `,"Output":"building kube-apiserver\n"}`},
			want:   "building kube-apiserver\n",
		},
		"a compiler's error shows": {
			events: []string{`{"Action":"build-output","ImportPath":"a","Output":"undefined: x\n"}`},
			want:   "undefined: x\n",
		},
		"a line that is no event shows": {
			events: []string{"go: updates to go.mod needed"},
			want:   "go: updates to go.mod needed\n",
		},
		"verbose shows passing tests": {
			events:  []string{output("TestQuick", "noise")},
			verbose: true,
			want:    "noise\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var record, out strings.Builder
			recorder := NewRecorder(&record, &out)
			recorder.Verbose = tt.verbose
			if err := recorder.Copy(strings.NewReader(lines(tt.events...))); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("showed %q\nwant   %q", out.String(), tt.want)
			}
			if events := lines(tt.events...); strings.HasPrefix(events, "{") && record.String() != events {
				t.Errorf("recorded %q\nwant     %q", record.String(), events)
			}
		})
	}
}
