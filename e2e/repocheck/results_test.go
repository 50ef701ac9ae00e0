package repocheck

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
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
		test   TestName
		status Status
		record string
		want   string
	}{
		"the test passed": {test: "TestOne", record: lines(ran("TestOne", "pass"))},
		"the subtest passed": {test: "TestOne/a taint without a key",
			record: lines(ran("TestOne/a_taint_without_a_key", "pass"))},
		"the test did not run": {test: "TestOne", record: lines(ran("TestTwice", "pass")),
			want: "did not run"},
		"the subtest did not run": {test: "TestOne/inner", record: lines(ran("TestOne", "pass")),
			want: "did not run"},
		"the same name ran in another package": {test: "b/TestTwice", record: lines(ran("TestTwice", "pass")),
			want: "did not run"},
		"an open point's test did not run": {test: "TestOne", status: Open,
			record: lines(ran("TestTwice", "pass"))},
		"some other test was skipped": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			ran("TestTwice", "skip")), want: "TestTwice: was skipped"},
		"some other test failed": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			ran("TestTwice", "fail")), want: "TestTwice: failed"},
		"a test passed when it ran again": {test: "TestOne", record: lines(ran("TestOne", "fail"),
			ran("TestOne", "pass"))},
		"a test failed twice": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			ran("TestTwice", "fail"), ran("TestTwice", "fail")), want: "TestTwice: failed"},
		"a test never ended when it ran again": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			ran("TestTwice", "fail"), `{"Action":"run"`+inA+`,"Test":"TestTwice"}`), want: "TestTwice: failed"},
		"some other test never ended": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			`{"Action":"run"`+inA+`,"Test":"TestTwice"}`), want: "TestTwice: never ended"},
		"a package without tests is not skipped": {test: "TestOne", record: lines(ran("TestOne", "pass"),
			`{"Action":"skip","Package":"`+ModulePath+`/c"}`)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			row := Row{Status: cmp.Or(tt.status, Done), Command: "make test", Tests: []TestName{tt.test}}
			list := &Guarantees{Acceptance: []Section{{Rows: []Row{row}}}}
			results := Results{}
			if err := results.read(strings.NewReader(tt.record)); err != nil {
				t.Fatal(err)
			}
			wantProblem(t, CheckResults(list, "make test", sources, results), tt.want)
			if problems := CheckResults(list, "make e2e-kind", sources, Results{}); len(problems) > 0 {
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

func TestUnstableTestsAreNamed(t *testing.T) {
	results := readAll(t, ran("TestOne", "fail"), ran("TestOne/inner", "fail"), ran("TestTwice", "pass"),
		ran("TestOne", "pass"), ran("TestOne/inner", "pass"))
	if got, want := results.Unstable(), []string{ModulePath + "/a TestOne"}; !slices.Equal(got, want) {
		t.Errorf("unstable: %v, want %v", got, want)
	}
}

// TestRerunHidesNothing: gotestsum runs again what failed, whether or not tests were left out.
func TestRerunHidesNothing(t *testing.T) {
	const packageFailed, packagePassed = `{"Action":"fail"` + inA + `}`, `{"Action":"pass"` + inA + `}`
	began := func(test string) string { return `{"Action":"run"` + inA + `,"Test":"` + test + `"}` }
	a := ModulePath + "/a"
	tests := map[string]struct {
		events []string
		want   []string
	}{
		"nothing failed": {events: []string{ran("TestOne", "pass"), packagePassed}},
		"a test passed when it ran again": {
			events: []string{ran("TestOne", "fail"), packageFailed, ran("TestOne", "pass"), packagePassed},
		},
		"a subtest failed": {
			events: []string{began("TestOne"), ran("TestOne/inner", "fail"), ran("TestOne", "fail"), packageFailed},
		},
		"a test failed twice": {
			events: []string{ran("TestOne", "fail"), packageFailed, ran("TestOne", "fail"), packageFailed},
		},
		"a test ended its process": {
			events: []string{began("TestOne"), packageFailed, ran("TestOne", "pass"), packagePassed},
			want:   []string{a + " TestOne: never ended"},
		},
		"a test ended its process after another had failed": {
			events: []string{ran("TestTwo", "fail"), began("TestOne"), packageFailed, ran("TestTwo", "pass")},
			want:   []string{a + " TestOne: never ended"},
		},
		"a package failed before its tests": {
			events: []string{packageFailed, packagePassed},
			want:   []string{a + ": failed"},
		},
		"a package failed after its tests, when one of them ran again": {
			events: []string{ran("TestOne", "fail"), packageFailed, ran("TestOne", "pass"), packageFailed},
			want:   []string{a + ": failed"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			results := readAll(t, tt.events...)
			if got := results.CheckRerun(); !slices.Equal(got, tt.want) {
				t.Errorf("left out: %q, want %q", got, tt.want)
			}
			for _, problem := range tt.want {
				if !slices.Contains(CheckResults(&Guarantees{}, "make test", nil, results), problem) {
					t.Errorf("CheckResults does not say %q", problem)
				}
			}
		})
	}
}

func readAll(t *testing.T, events ...string) Results {
	t.Helper()
	results := Results{}
	if err := results.read(strings.NewReader(lines(events...))); err != nil {
		t.Fatal(err)
	}
	return results
}
