package house

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// slowTest is how long a passing test may take, in seconds, without being worth a line of its own.
const slowTest = 1.0

// Recorder turns the output of `go test -json` into a record for CheckResults and into lines for a person: one per
// package and per slow test as they end, what a package itself prints at once (so that a build shows its progress),
// and the whole output of a test that failed.
type Recorder struct {
	record io.Writer
	out    io.Writer
	// Verbose prints the output of passing tests too, at once.
	Verbose bool
	// pending holds what a test printed until it is known whether anybody wants to read it.
	pending map[testKey]*bytes.Buffer
	counts  map[string]int
	// failed holds the top-level tests that failed, running those of them that have not ended, whole the packages that failed.
	failed  map[testKey]bool
	running map[testKey]bool
	whole   map[string]bool
}

// NewRecorder writes the record as it comes to record, the lines for a person to out.
func NewRecorder(record, out io.Writer) *Recorder {
	return &Recorder{
		record: record, out: out, pending: map[testKey]*bytes.Buffer{}, counts: map[string]int{},
		failed: map[testKey]bool{}, running: map[testKey]bool{}, whole: map[string]bool{},
	}
}

// Copy reads events until in ends. A line that is no event (the go command prints some complaints so) is shown.
func (r *Recorder) Copy(in io.Reader) error {
	reader := bufio.NewReader(in)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if err := r.line(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *Recorder) line(line []byte) error {
	var event Event
	if err := json.Unmarshal(line, &event); err != nil {
		_, err := r.out.Write(line)
		return err
	}
	if _, err := r.record.Write(line); err != nil {
		return err
	}
	if event.Test != "" {
		r.testEvent(event)
		return nil
	}
	r.packageEvent(event)
	return nil
}

func (r *Recorder) testEvent(event Event) {
	key := testKey{event.Package, event.Test}
	if !strings.Contains(event.Test, "/") {
		r.noteEnd(key, event.Action)
	}
	switch event.Action {
	case "output":
		r.output(key, event.Output)
	case "pass", "skip":
		delete(r.pending, key)
		r.counts[event.Package]++
		isSubtest := strings.Contains(event.Test, "/")
		if event.Action == "skip" || event.Elapsed >= slowTest && !isSubtest {
			fmt.Fprintf(r.out, "  %-4s %s (%.1fs)\n", event.Action, event.Test, event.Elapsed)
		}
	case "fail":
		r.flush(key)
		fmt.Fprintf(r.out, "  FAIL %s (%.1fs)\n", event.Test, event.Elapsed)
	}
}

func (r *Recorder) output(key testKey, text string) {
	if r.Verbose {
		_, _ = io.WriteString(r.out, text)
		return
	}
	if r.pending[key] == nil {
		r.pending[key] = &bytes.Buffer{}
	}
	r.pending[key].WriteString(text)
}

func (r *Recorder) flush(key testKey) {
	if buffer := r.pending[key]; buffer != nil {
		_, _ = buffer.WriteTo(r.out)
		delete(r.pending, key)
	}
}

func (r *Recorder) packageEvent(event Event) {
	switch event.Action {
	case "output", "build-output":
		if !isVerdict(event.Output) {
			_, _ = io.WriteString(r.out, event.Output)
		}
	case "pass":
		fmt.Fprintf(r.out, "ok   %s %d tests (%.1fs)\n", event.Package, r.counts[event.Package], event.Elapsed)
	case "fail":
		r.whole[event.Package] = true
		r.flushPackage(event.Package)
		fmt.Fprintf(r.out, "FAIL %s (%.1fs)\n", event.Package, event.Elapsed)
	}
}

// flushPackage shows what tests printed that never ended, as after a panic or a timeout: the cause is among it.
func (r *Recorder) flushPackage(importPath string) {
	var keys []testKey
	for key := range r.pending {
		if key.importPath == importPath {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b testKey) int { return strings.Compare(a.test, b.test) })
	for _, key := range keys {
		fmt.Fprintf(r.out, "  unfinished %s\n", key.test)
		r.flush(key)
	}
}

// isVerdict recognises the lines by which the go command sums a package up; we print our own.
func isVerdict(line string) bool {
	return line == "PASS\n" || line == "FAIL\n" || strings.HasPrefix(line, "ok  \t") ||
		strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t") ||
		strings.HasPrefix(line, "\t") && strings.Contains(line, "coverage: 0.0% of statements")
}
