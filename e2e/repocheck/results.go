package repocheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Event is a line of `go test -json`; see `go doc test2json`.
type Event struct {
	Action  string
	Package string
	Test    string
}

// Results is what became of each test, by import path and test name: "pass", "fail", "skip", ""
// while it runs, or one of the constants below. A package that failed although none of its tests
// did has an entry with an empty test name.
type Results map[testKey]string

const (
	// unstable is a test that failed together with others and passed alone.
	unstable = "unstable"
	// cutShort is a test that had not ended when its package had. The tests after it did not run,
	// so it stays cut short when it passes in another run.
	cutShort = "cut short"
)

type testKey struct{ importPath, test string }

func (k testKey) String() string { return strings.TrimSuffix(k.importPath+" "+k.test, " ") }

// ReadResults reads all records (*.jsonl) in a folder. No record at all is an error, so that a
// check which runs before the tests cannot pass.
func ReadResults(folder string) (Results, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no test records in %s: run the tests first", folder)
	}
	results := Results{}
	for _, file := range files {
		if err := results.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// ReadFile adds a record.
func (r Results) ReadFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	if err := errors.Join(r.read(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (r Results) read(in io.Reader) error {
	for decoder := json.NewDecoder(in); ; {
		var event Event
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r.note(event)
	}
}

func (r Results) note(event Event) {
	if event.Test == "" {
		if event.Action == "fail" { // "skip" only means that the package has no tests
			r.notePackageFailed(event.Package)
		}
		return
	}
	key := testKey{event.Package, event.Test}
	switch before := r[key]; {
	case before == cutShort:
	case event.Action == "run" && before != "fail":
		r[key] = ""
	case event.Action == "pass" && (before == "fail" || before == unstable):
		r[key] = unstable
	case event.Action == "pass", event.Action == "fail", event.Action == "skip":
		r[key] = event.Action
	}
}

func (r Results) notePackageFailed(importPath string) {
	explained := false
	for key, action := range r {
		if key.importPath != importPath {
			continue
		}
		if action == "" {
			r[key] = cutShort
		}
		explained = explained || r[key] == cutShort || r[key] == "fail"
	}
	if !explained {
		r[testKey{importPath, ""}] = "fail"
	}
}

// CheckResults returns what is wrong between the done points of the command and what ran: a named
// test that did not run or did not pass, and any test at all, named or not, that was skipped or
// never ended.
func CheckResults(list *Guarantees, command string, sources *Sources, results Results) []string {
	problems := results.problems(func(_ testKey, action string) bool { return !passed(action) })
	for _, row := range list.rows() {
		if row.Status != Done || row.Command != command {
			continue
		}
		for _, name := range row.Tests {
			if problem := checkRan(name, sources, results); problem != "" {
				problems = append(problems, fmt.Sprintf("row %s: %s", row.Key, problem))
			}
		}
	}
	return problems
}

func (r Results) problems(isProblem func(key testKey, action string) bool) []string {
	var problems []string
	for key, action := range r {
		if isProblem(key, action) {
			problems = append(problems, fmt.Sprintf("%s: %s", key, inWords(action)))
		}
	}
	slices.Sort(problems)
	return problems
}

// CheckRerun returns what failed in such a way that tests were left out, sorted: tests that never
// ended, and packages that failed although none of their tests did. gotestsum runs these again
// too, but not the tests that were left out.
func (r Results) CheckRerun() []string {
	return r.problems(func(key testKey, action string) bool {
		return action == cutShort || key.test == "" && action == "fail"
	})
}

func passed(action string) bool { return action == "pass" || action == unstable }

// Unstable are the top-level tests that failed together with others and passed when they ran again,
// alone; sorted. They are no problem of CheckResults, but a person has to look at them: the product
// or the test has a race.
func (r Results) Unstable() []string {
	var names []string
	for key, action := range r {
		if action == unstable && !strings.Contains(key.test, "/") {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

func inWords(action string) string {
	switch action {
	case "skip":
		return "was skipped"
	case "fail":
		return "failed"
	}
	return "never ended"
}

func checkRan(name TestName, sources *Sources, results Results) string {
	found, err := sources.Find(name)
	if err != nil {
		return err.Error()
	}
	_, _, subtest := name.Split()
	test := found.Name
	if subtest != "" {
		test = path.Join(test, subtestName(subtest))
	}
	action, ran := results[testKey{path.Join(ModulePath, found.Folder), test}]
	if !ran {
		return fmt.Sprintf("%s did not run", name)
	}
	if !passed(action) {
		return fmt.Sprintf("%s %s", name, inWords(action))
	}
	return ""
}
