package house

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Event is a line of `go test -json`; see `go doc test2json`.
type Event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	// Elapsed is in seconds.
	Elapsed float64
}

// Results is what became of each test, by import path and test name ("pass", "fail", "skip", "" while it runs; unstable where it passed only when it
// ran again).
type Results map[testKey]string

// unstable is a test that failed beside others and passed alone.
const unstable = "unstable"

type testKey struct{ importPath, test string }

// ReadResults reads all records (*.jsonl) in a folder. No record at all is an error, so that a check which runs before
// the tests cannot pass.
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
		if err := results.readFile(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return results, nil
}

func (r Results) readFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(r.read(f), f.Close())
}

func (r Results) read(in io.Reader) error {
	reader := bufio.NewReader(in)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var event Event
			if err := json.Unmarshal(line, &event); err != nil {
				return err
			}
			r.note(event)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r Results) note(event Event) {
	if event.Test == "" {
		return // of the package: "skip" there only means that it has no tests
	}
	key := testKey{event.Package, event.Test}
	switch event.Action {
	case "run":
		if r[key] != "fail" {
			r[key] = ""
		}
	case "pass":
		if r[key] == "fail" || r[key] == unstable {
			r[key] = unstable
			return
		}
		r[key] = event.Action
	case "fail", "skip":
		r[key] = event.Action
	}
}

// CheckResults returns what is wrong between the done rows of the command and what ran: a named test that did not run
// or did not pass, and any test at all, named or not, that was skipped or never ended.
func CheckResults(rows []Row, command string, sources *Sources, results Results) []string {
	var problems []string
	for key, action := range results {
		if !passed(action) {
			problems = append(problems, fmt.Sprintf("%s %s: %s", key.importPath, key.test, inWords(action)))
		}
	}
	slices.Sort(problems)
	for _, row := range rows {
		if row.Status != Done || row.Command != command {
			continue
		}
		for _, name := range row.Tests {
			if problem := checkRan(name, sources, results); problem != "" {
				problems = append(problems, fmt.Sprintf("point %d.%d: %s", row.Issue, row.Point, problem))
			}
		}
	}
	return problems
}

func passed(action string) bool { return action == "pass" || action == unstable }

// Unstable are the top-level tests that failed beside others and passed when they ran again, alone; sorted. They are no problem of CheckResults, but somebody
// has to look at them: the product or the test has a race.
func (r Results) Unstable() []string {
	var names []string
	for key, action := range r {
		if action == unstable && !strings.Contains(key.test, "/") {
			names = append(names, key.importPath+" "+key.test)
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
