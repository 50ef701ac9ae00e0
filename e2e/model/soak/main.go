// Command soak plays random worlds until one breaks a promise, prints its trace, and ends with status 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
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
	flag.Parse()
	debug.SetGCPercent(400)
	if broken, err := stored(*traces); err != nil || broken {
		if err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			os.Exit(2)
		}
		os.Exit(1)
	}
	if !soak(*seed, *runs, *workers, *shrink) {
		os.Exit(1)
	}
}

// stored plays the traces of a folder and reports whether one breaks a promise.
func stored(folder string) (bool, error) {
	if folder == "" {
		return false, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.trace"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		trace, err := model.Parse(string(text))
		if err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		if err := model.Play(trace, nil); err != nil {
			fmt.Fprintf(os.Stdout, "broken: %v (%s)\n", err, filepath.Base(file))
			return true, nil
		}
	}
	return false, nil
}

// found is the broken promise of the lowest seed that breaks one. It is safe for concurrent use.
type found struct {
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
}

// below reports whether a find stands at a lower seed.
func (f *found) below(seed uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil && f.trace.Seed < seed
}

// soak reports whether every promise held. Where several seeds break one it tells of the lowest, however many are played at once.
func soak(seed, runs uint64, workers int, shrink bool) bool {
	var next atomic.Uint64
	var group sync.WaitGroup
	broken := &found{}
	for range workers {
		group.Go(func() {
			for {
				n := next.Add(1) - 1
				if runs > 0 && n >= runs || broken.below(seed+n) {
					return
				}
				trace := model.Generate(seed + n)
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
	switch {
	case broken.err == nil:
		return true
	case shrink:
		fmt.Fprintln(os.Stdout, model.Report(broken.trace, broken.err))
	default:
		fmt.Fprintf(os.Stdout, "broken: %v (seed %d)\n", broken.err, broken.trace.Seed)
	}
	return false
}
