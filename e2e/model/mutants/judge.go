package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stratos-sh/stratos/e2e/model/mutants/patch"
)

// hung is how long all seeds may take at the very most: a planted bug may have a world go on
// forever .
const hung = 10 * time.Minute

// finding is the line of the soak about a broken invariant: when, which, how, and the seed or
// trace.
var finding = regexp.MustCompile(`(?m)^broken:\s+\S+ (\w+): .* \((?:seed (\d+)|(\S+\.trace))\)$`)

// find is a broken invariant.
type find struct {
	promise, words string
	// seed is that of the world, where it was no stored trace.
	seed uint64
}

// judge plants bugs and plays.
type judge struct {
	root, work string
	options
	// sound is the program without any planted bug. Only what holds there counts as found.
	sound string
}

// prepare builds the sound program and plays the stored traces: with one that breaks an invariant
// by itself every bug would be found.
func (j *judge) prepare(ctx context.Context) error {
	if err := j.build(ctx, j.sound); err != nil {
		return err
	}
	f, err := j.play(ctx, j.sound, world{traces: true}, 1, 1)
	if err == nil && f != nil {
		err = errors.New("the tree breaks a promise without a planted bug: " + f.words)
	}
	return err
}

// judge plants one bug. It returns how the bug was found, and an error where it was not found as
// its patch says.
func (j *judge) judge(ctx context.Context, p patch.Patch) (string, error) {
	folder := filepath.Join(j.work, p.Name)
	files, err := patch.Plant(ctx, j.root, folder, p.File)
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "soak")
	overlay, err := j.overlay(folder, files)
	if err != nil {
		return "", err
	}
	if err := j.build(ctx, program, "-overlay", overlay); err != nil {
		return "", err
	}
	f, err := j.search(ctx, program, p)
	switch {
	case err != nil:
		return "", err
	case f == nil:
		return "", fmt.Errorf("SURVIVES %d seeds", j.runs)
	case !slices.Contains(p.Breaks, f.promise):
		return "", fmt.Errorf("breaks %s, its patch says %v: %s", f.promise, p.Breaks, f.words)
	}
	if j.remember && f.seed != 0 && f.seed != p.Seed {
		err = p.Remember(f.seed)
	}
	_ = os.RemoveAll(folder)
	return f.words, err
}

// overlay writes down for the go command which files of the tree are others. So the tree stays as
// it is, and what the bug does not touch comes from the build cache.
func (j *judge) overlay(folder string, files []string) (string, error) {
	replace := map[string]string{}
	for _, f := range files {
		replace[filepath.Join(j.root, f)] = filepath.Join(folder, f)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	at := filepath.Join(folder, "overlay.json")
	return at, os.WriteFile(at, text, 0o600)
}

func (j *judge) build(ctx context.Context, program string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", program}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "./model/soak")...)
	build.Dir = filepath.Join(j.root, "e2e")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("does not build: %w: %s", err, out)
	}
	return nil
}

// search plays until the bug is found: the seed that the patch remembers, the stored traces, then
// all seeds in their order. An invariant that the sound program breaks too is not broken by the
// bug. Where a seed is to be remembered no trace counts: the model has to find the bug by itself.
func (j *judge) search(ctx context.Context, program string, p patch.Patch) (*find, error) {
	w := world{bursts: p.Bursts}
	if p.Seed != 0 && j.fast {
		if f, err := j.play(ctx, program, w, p.Seed, 1); err != nil || f != nil && j.holds(ctx, w, f.seed) {
			return f, err
		}
	}
	if !j.remember {
		// traces hold in the sound program
		if f, err := j.play(ctx, program, world{traces: true}, 1, 1); f != nil && f.seed == 0 || err != nil {
			return f, err
		}
	}
	for first := uint64(1); first <= j.runs; {
		f, err := j.play(ctx, program, w, first, j.runs-first+1)
		if f == nil || err != nil || j.holds(ctx, w, f.seed) {
			return f, err
		}
		first = f.seed + 1
	}
	return nil, nil
}

// holds reports whether the sound program breaks no invariant in the seed.
func (j *judge) holds(ctx context.Context, w world, seed uint64) bool {
	f, err := j.play(ctx, j.sound, w, seed, 1)
	return f == nil && err == nil
}

// world is which worlds are played: the stored traces first, or bursts of replicas to come.
type world struct{ traces, bursts bool }

// play plays the seeds, and returns the invariant that breaks, nil where all hold.
func (j *judge) play(ctx context.Context, program string, w world, seed, runs uint64) (*find, error) {
	ctx, cancel := context.WithTimeout(ctx, hung)
	defer cancel()
	args := []string{"-shrink=false", "-workers", strconv.Itoa(j.workers), "-seed", strconv.FormatUint(seed, 10), "-runs",
		strconv.FormatUint(runs, 10)}
	if w.bursts {
		args = append(args, "-bursts")
	}
	if w.traces {
		args = append(args, "-traces", filepath.Join(j.root, "e2e", "model", "testdata", "traces"))
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err == nil {
		return nil, nil
	}
	m := finding.FindStringSubmatch(string(out))
	if m == nil {
		return nil, fmt.Errorf("fails without breaking a promise: %w: %s", err, out)
	}
	n, _ := strconv.ParseUint(m[2], 10, 64) // "" for a trace
	return &find{promise: m[1], words: m[0], seed: n}, nil
}
