package house

import (
	"slices"
	"strings"
)

// FailedTest is a top-level test that failed in a package whose other tests all ended.
type FailedTest struct {
	// Package is an import path.
	Package string
	Test    string
}

// Pattern is the argument of -run that chooses the test and no other.
func (f FailedTest) Pattern() string { return "^" + f.Test + "$" }

func (r *Recorder) noteEnd(key testKey, action string) {
	switch action {
	case "run":
		r.running[key] = true
	case "pass", "skip":
		delete(r.running, key)
		delete(r.failed, key)
	case "fail":
		delete(r.running, key)
		r.failed[key] = true
	}
}

// Failed returns the tests that failed so far, sorted. It reports false where running them again would not tell about all that went wrong:
// a package failed without a test that did (it does not build, its TestMain complains), or has a test that never ended (a panic, a
// timeout), so that nobody knows what the tests after it would have done.
func (r *Recorder) Failed() ([]FailedTest, bool) {
	explained := map[string]bool{}
	var failed []FailedTest
	for key := range r.failed {
		explained[key.importPath] = true
		failed = append(failed, FailedTest{key.importPath, key.test})
	}
	slices.SortFunc(failed, func(a, b FailedTest) int {
		return strings.Compare(a.Package+" "+a.Test, b.Package+" "+b.Test)
	})
	for importPath := range r.whole {
		if !explained[importPath] {
			return failed, false
		}
	}
	return failed, len(r.running) == 0
}
