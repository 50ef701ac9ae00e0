package controlplane

import (
	"bytes"
	"strings"
	"sync"
)

// keptLines is how much of the go command's complaints an error repeats.
const keptLines = 20

// buildOutput reads what `go build -v` prints: one import path per compiled package, and between
// them whatever went wrong.
type buildOutput struct {
	// mu guards all below: os/exec writes from one goroutine while the progress line reads from
	// another.
	mu       sync.Mutex
	rest     []byte
	compiled int
	lines    []string
}

// Write takes any part of the output and never fails.
func (o *buildOutput) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, data...)
	for {
		line, rest, found := bytes.Cut(o.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		o.rest = rest
		o.take(string(line))
	}
}

func (o *buildOutput) take(line string) {
	if line != "" && !strings.ContainsAny(line, " \t") {
		o.compiled++
		return
	}
	o.lines = append(o.lines, line)
	if len(o.lines) > keptLines {
		o.lines = o.lines[1:]
	}
}

func (o *buildOutput) packages() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.compiled
}

func (o *buildOutput) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	if len(o.rest) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(o.rest))
	}
	return strings.Join(lines, "\n")
}
