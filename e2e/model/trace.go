package model

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trace is a run that can be played again: what the dice of the world begin with, and what is done.
type Trace struct {
	Seed       uint64
	Operations []Operation
}

// Generate draws a trace.
func Generate(seed uint64) Trace {
	dice := rand.New(rand.NewPCG(seed, 0x2545f491)) //nolint:gosec // dice, not secrets
	all := operations()
	names := slices.Sorted(maps.Keys(all))
	sum := 0
	for _, n := range names {
		sum += all[n].weight
	}
	draw := func(name string, wait time.Duration) Operation { return drawn(dice, all, name, wait) }
	t := Trace{Seed: seed, Operations: []Operation{draw("nominate", 0), draw("newpool", 0)}}
	if dice.IntN(3) == 0 {
		t.Operations = append(t.Operations, draw("newpool", time.Second))
	}
	for range 4 + dice.IntN(16) {
		at, name := dice.IntN(sum), ""
		for _, n := range names {
			if at -= all[n].weight; at < 0 {
				name = n
				break
			}
		}
		t.Operations = append(t.Operations, draw(name, someWait(dice)))
	}
	return withReservations(withTypes(withPauses(t)))
}

// GenerateBurst draws a trace of ReplicaSets whose first pods find standby nodes, in a pool that
// starts them ahead.
func GenerateBurst(seed uint64) Trace {
	dice := rand.New(rand.NewPCG(seed, 0x9e3779b9)) //nolint:gosec // dice, not secrets
	all := operations()
	nominate, pool := drawn(dice, all, "nominate", 0), drawn(dice, all, "newpool", 0)
	burst := drawn(dice, all, "replicas", 400*time.Second)
	pool.Args = [4]int{0, 3, 4, pool.Args[3] | bitAhead}
	burst.Args[2] = pool.Args[0]
	t := Trace{Seed: seed, Operations: []Operation{nominate, pool, burst}}
	names := []string{"replicas", "replicas", "replicas", "scale", "scale", "scale", "unowner", "quota", "quota",
		"pods", "foreign", "unpod", "finish", "crash", "kill", "relist", "slowwatch", "lose", "fallback", "mute", "apidown"}
	for range 3 + dice.IntN(8) {
		t.Operations = append(t.Operations, drawn(dice, all, names[dice.IntN(len(names))], someWait(dice)))
	}
	return withReservations(withTypes(withPauses(t)))
}

func drawn(dice *rand.Rand, all map[string]kindOfOperation, name string, wait time.Duration) Operation {
	o := Operation{Wait: wait, Name: name}
	for k, most := range all[name].most {
		o.Args[k] = dice.IntN(most + 1)
	}
	return o
}

// someWait is mostly seconds, at times minutes: from a millisecond on each order of magnitude is as
// likely as the next.
func someWait(dice *rand.Rand) time.Duration {
	wait := time.Duration(1<<dice.IntN(18)) * time.Millisecond
	return wait + time.Duration(dice.IntN(1000))*time.Millisecond
}

// Play runs a trace to its end and returns the invariant that it breaks, nil for none. journal may
// be nil.
func Play(t Trace, journal func(string)) error {
	w := NewWorld(t.Seed, journal)
	all := operations()
	for _, o := range t.Operations {
		w.runUntil(w.now.Add(o.Wait))
		if w.broken != nil {
			break
		}
		w.note("--- %s", o)
		all[o.Name].do(w, o.Args)
		w.rules.afterStep()
	}
	if w.broken == nil {
		w.finish()
	}
	return w.broken
}

// Shrink returns a shorter trace that still breaks, as far as it finds one within so many plays.
func Shrink(t Trace, plays int, breaks func(Trace) bool) Trace {
	still := func(o Trace) bool { plays--; return plays >= 0 && breaks(o) }
	for size := max(len(t.Operations)/2, 1); size > 0 && plays > 0; size /= 2 {
		for at := 0; at+size <= len(t.Operations); {
			less := Trace{Seed: t.Seed, Operations: slices.Delete(slices.Clone(t.Operations), at, at+size)}
			if still(less) {
				t = less
			} else {
				at += size
			}
		}
	}
	for at := range t.Operations {
		for k := range t.Operations[at].Args {
			less := Trace{Seed: t.Seed, Operations: slices.Clone(t.Operations)}
			if less.Operations[at].Args[k] == 0 {
				continue
			}
			less.Operations[at].Args[k] = 0
			if still(less) {
				t = less
			}
		}
	}
	return t
}

// Report shrinks the trace of a run that broke an invariant and prints what is needed to play it
// again.
func Report(t Trace, err error) string {
	const plays = 300 // some seconds
	promise := promiseOf(err)
	short := Shrink(t, plays, func(o Trace) bool { return promiseOf(Play(o, nil)) == promise })
	return fmt.Sprintf("seed %d breaks a promise: %v\nStored in e2e/model/testdata/traces this plays it again (%v):\n%s",
		t.Seed, err, Play(short, nil), short)
}

// promiseOf is the name of the invariant that the error says was broken.
func promiseOf(err error) string {
	if err == nil {
		return ""
	}
	words := strings.Fields(err.Error())
	return strings.TrimSuffix(words[min(1, len(words)-1)], ":")
}

// String writes the operation as a line of a trace: the milliseconds to wait, the name, the
// arguments.
func (o Operation) String() string {
	words := []string{strconv.FormatInt(o.Wait.Milliseconds(), 10), o.Name}
	args := o.Args[:]
	for len(args) > 0 && args[len(args)-1] == 0 {
		args = args[:len(args)-1]
	}
	for _, a := range args {
		words = append(words, strconv.Itoa(a))
	}
	return strings.Join(words, " ")
}

// String is the form in which traces are stored.
func (t Trace) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", t.Seed)
	for _, o := range t.Operations {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// Parse reads a stored trace. Lines that begin with # are comments.
func Parse(text string) (Trace, error) {
	t := Trace{}
	all := operations()
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] == "seed" && len(words) == 2 {
			seed, err := strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				return t, fmt.Errorf("line %d: %w", n, err)
			}
			t.Seed = seed
			continue
		}
		o, err := parseOperation(words, all)
		if err != nil {
			return t, fmt.Errorf("line %d: %w", n, err)
		}
		t.Operations = append(t.Operations, o)
	}
	return t, lines.Err()
}

func parseOperation(words []string, all map[string]kindOfOperation) (Operation, error) {
	o := Operation{}
	if len(words) < 2 || len(words) > 2+len(o.Args) {
		return o, fmt.Errorf("%q is not: milliseconds, operation, at most %d numbers", strings.Join(words, " "), len(o.Args))
	}
	wait, err := strconv.Atoi(words[0])
	o.Wait, o.Name = time.Duration(wait)*time.Millisecond, words[1]
	kind, known := all[o.Name]
	if !known {
		err = cmp.Or(err, fmt.Errorf("no operation is called %q", o.Name))
	}
	for k, word := range words[2:] {
		arg, bad := strconv.Atoi(word)
		if bad == nil && (arg < 0 || arg > kind.most[k]) {
			bad = fmt.Errorf("%s: argument %d is %d, allowed is 0 to %d", o.Name, k+1, arg, kind.most[k])
		}
		err = cmp.Or(err, bad)
		o.Args[k] = arg
	}
	return o, err
}
