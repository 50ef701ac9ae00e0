package house

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatMayRunAgain(t *testing.T) {
	packageFailed := `{"Action":"fail"` + inA + `,"Elapsed":3}`
	a := ModulePath + "/a"
	tests := map[string]struct {
		events []string
		want   []FailedTest
		known  bool
	}{
		"nothing failed":                 {events: []string{ran("TestOne", "pass")}, known: true},
		"a test failed":                  {events: []string{ran("TestTwo", "fail"), ran("TestOne", "fail"), packageFailed}, want: []FailedTest{{a, "TestOne"}, {a, "TestTwo"}}, known: true},
		"a subtest failed":               {events: []string{`{"Action":"run"` + inA + `,"Test":"TestOne"}`, ran("TestOne/inner", "fail"), ran("TestOne", "fail"), packageFailed}, want: []FailedTest{{a, "TestOne"}}, known: true},
		"it passed when it ran again":    {events: []string{ran("TestOne", "fail"), packageFailed, ran("TestOne", "pass")}, known: false},
		"a package does not build":       {events: []string{packageFailed}, known: false},
		"a test never ended":             {events: []string{ran("TestTwo", "fail"), `{"Action":"run"` + inA + `,"Test":"TestOne"}`, packageFailed}, want: []FailedTest{{a, "TestTwo"}}, known: false},
		"a panic ended a test's package": {events: []string{`{"Action":"run"` + inA + `,"Test":"TestOne"}`, packageFailed}, known: false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := NewRecorder(io.Discard, io.Discard)
			if err := recorder.Copy(strings.NewReader(lines(tt.events...))); err != nil {
				t.Fatal(err)
			}
			failed, known := recorder.Failed()
			if diff := cmp.Diff(tt.want, failed); diff != "" || known != tt.known {
				t.Errorf("known %t, want %t; failed, -want +got:\n%s", known, tt.known, diff)
			}
		})
	}
}

func TestUnstableTestsAreNamed(t *testing.T) {
	results := Results{}
	record := lines(ran("TestOne", "fail"), ran("TestOne/inner", "fail"), ran("TestTwice", "pass"), ran("TestOne", "pass"), ran("TestOne/inner", "pass"))
	if err := results.read(strings.NewReader(record)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ModulePath + "/a TestOne"}, results.Unstable()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
