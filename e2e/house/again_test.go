package house

import (
	"io"
	"slices"
	"strings"
	"testing"
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
			if !slices.Equal(failed, tt.want) || known != tt.known {
				t.Errorf("failed %v, known %t; want %v, %t", failed, known, tt.want, tt.known)
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
	if got, want := results.Unstable(), []string{ModulePath + "/a TestOne"}; !slices.Equal(got, want) {
		t.Errorf("unstable: %v, want %v", got, want)
	}
}
