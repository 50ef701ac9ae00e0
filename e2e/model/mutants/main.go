// Command mutants plants one bug after the other and expects the model to find each: it fails when
// one is not found, breaks another invariant than its patch says, or does not apply any more, and
// when the tree breaks an invariant without any of them. The tree itself is not changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/e2e/model/mutants/patch"
)

// options are the flags.
type options struct {
	runs           uint64
	workers        int
	only           string
	remember, fast bool
}

func main() {
	root := flag.String("root", "../..", "the repository")
	o := options{}
	flag.Uint64Var(&o.runs, "runs", 2000, "how many seeds are played against each, after the stored traces")
	flag.IntVar(&o.workers, "workers", 2, "how many worlds are played side by side")
	flag.StringVar(&o.only, "only", "", "a part of the names of those to plant; empty: all")
	flag.BoolVar(&o.fast, "fast", true, "begin with the seed that the patch remembers; else all are played in their order")
	flag.BoolVar(&o.remember, "remember", false, "write into each patch the seed that has found it")
	flag.Parse()
	at, err := filepath.Abs(*root)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, os.Stdout, at, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, root string, o options) error {
	patches, err := patch.List(filepath.Join(root, "e2e", "model", "mutants"))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	j := &judge{root: root, work: work, options: o, sound: filepath.Join(work, "sound")}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	began, planted := time.Now(), 0
	var survivors []string
	for _, p := range patches {
		if !strings.Contains(p.Name, o.only) {
			continue
		}
		planted++
		from := time.Now()
		verdict, err := j.judge(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		word := "found"
		if err != nil {
			word, verdict = "NOT FOUND", err.Error()
			survivors = append(survivors, p.Name)
		}
		fmt.Fprintf(out, "%-9s  %-44s %3.0fs  %s\n", word, p.Name, time.Since(from).Seconds(), verdict)
	}
	fmt.Fprintf(out, "%d planted bugs, %d found, in %s\n", planted, planted-len(survivors),
		time.Since(began).Round(time.Second))
	switch {
	case len(survivors) > 0:
		return fmt.Errorf("%d planted bugs were not found as their patches say: %s", len(survivors),
			strings.Join(survivors, ", "))
	case planted == 0:
		return errors.New("no patch has such a name")
	}
	return nil
}
