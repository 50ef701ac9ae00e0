// Command soak plays random worlds until one breaks an invariant, prints its trace, and ends with
// status 1.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/stratos-sh/stratos/e2e/model"
)

func main() {
	seed := flag.Uint64("seed", 1, "the first seed")
	runs := flag.Uint64("runs", 0, "how many to play; 0 is without end")
	workers := flag.Int("workers", 2, "how many worlds are played side by side")
	traces := flag.String("traces", "", "a folder of stored traces to play first")
	shrink := flag.Bool("shrink", true, "shorten the trace of a run that breaks a promise")
	all := flag.Bool("all", false, "go on after a run that breaks a promise")
	bursts := flag.Bool("bursts", false, "play ReplicaSets whose pods are still to come")
	tell := flag.String("tell", "", "a stored trace to play, telling what happens; or a seed")
	flag.Parse()
	debug.SetGCPercent(400)
	generate := model.Generate
	if *bursts {
		generate = model.GenerateBurst
	}
	if *tell != "" {
		os.Exit(told(*tell, generate))
	}
	if broken, err := stored(*traces); err != nil || broken {
		if err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			os.Exit(2)
		}
		os.Exit(1)
	}
	if !soak(*seed, *runs, *workers, generate, &found{all: *all, shrink: *shrink}) {
		os.Exit(1)
	}
}

// stored plays the traces of a folder and reports whether one breaks an invariant.
func stored(folder string) (bool, error) {
	if folder == "" {
		return false, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.trace"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		trace, err := read(file)
		if err != nil {
			return false, err
		}
		if err := model.Play(trace, nil); err != nil {
			fmt.Fprintf(os.Stdout, "broken: %v (%s)\n", err, filepath.Base(file))
			return true, nil
		}
	}
	return false, nil
}

// told plays one trace and prints what happens in it.
func told(what string, generate func(uint64) model.Trace) int {
	var trace model.Trace
	if seed, err := strconv.ParseUint(what, 10, 64); err == nil {
		trace = generate(seed)
	} else if trace, err = read(what); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	out := bufio.NewWriter(os.Stdout)
	err := model.Play(trace, func(line string) { fmt.Fprintln(out, line) })
	if fault := out.Flush(); fault != nil {
		return 2
	}
	if err != nil {
		return 1
	}
	return 0
}

func read(file string) (model.Trace, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return model.Trace{}, err
	}
	trace, err := model.Parse(string(text))
	if err != nil {
		return trace, fmt.Errorf("%s: %w", file, err)
	}
	return trace, nil
}

// found is the broken invariant of the lowest seed that breaks one. It is safe for concurrent use.
type found struct {
	// all: each one is printed at once, and the rest is played too. shrink: it is printed with a short
	// trace.
	all, shrink bool
	// mu guards the fields below.
	mu    sync.Mutex
	trace model.Trace
	err   error
}

// note keeps the find if its seed is the lowest.
func (f *found) note(t model.Trace, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || t.Seed < f.trace.Seed {
		f.trace, f.err = t, err
	}
	if f.all {
		f.tell(t, err)
	}
}

// below reports whether a find at a lower seed makes an end.
func (f *found) below(seed uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.all && f.err != nil && f.trace.Seed < seed
}

func (f *found) tell(t model.Trace, err error) {
	if f.shrink {
		fmt.Fprintln(os.Stdout, model.Report(t, err))
	} else {
		fmt.Fprintf(os.Stdout, "broken: %v (seed %d)\n", err, t.Seed)
	}
}

// soak reports whether every invariant held. Where several seeds break one it reports the lowest,
// however many are played at once.
func soak(seed, runs uint64, workers int, generate func(uint64) model.Trace, broken *found) bool {
	var next atomic.Uint64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				n := next.Add(1) - 1
				if runs > 0 && n >= runs || broken.below(seed+n) {
					return
				}
				trace := generate(seed + n)
				if err := model.Play(trace, nil); err != nil {
					broken.note(trace, err)
				}
				if n > 0 && n%1000 == 0 {
					fmt.Fprintln(os.Stdout, n, "worlds")
				}
			}
		})
	}
	group.Wait()
	if broken.err != nil && !broken.all {
		broken.tell(broken.trace, broken.err)
	}
	return broken.err == nil
}
