// Command mutants plants one bug after the other in a copy of the tree and expects the model to find each: it fails when one is not found, breaks
// another promise than its patch says, or does not apply any more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/e2e/model/mutants/patch"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	runs := flag.Int("runs", 600, "how many seeds are played against each, after the stored traces")
	only := flag.String("only", "", "a part of the names of those to plant; empty: all")
	flag.Parse()
	at, err := filepath.Abs(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, at, *runs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, runs int, only string) error {
	patches, err := patch.List(filepath.Join(root, "e2e", "model", "mutants"))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := copyTree(ctx, root, work); err != nil {
		return err
	}
	var survivors []string
	for _, p := range patches {
		if !strings.Contains(p.Name, only) {
			continue
		}
		verdict, killed := plant(ctx, work, p, runs)
		fmt.Fprintf(os.Stdout, "%-44s %s\n", p.Name, verdict)
		if !killed {
			survivors = append(survivors, p.Name)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(survivors) > 0 {
		return fmt.Errorf("%d planted bugs were not found as their patches say: %s", len(survivors), strings.Join(survivors, ", "))
	}
	return nil
}

// copyTree copies the files that git knows or would take in.
func copyTree(ctx context.Context, root, to string) error {
	command := exec.CommandContext(ctx, "bash", "-c",
		`set -euo pipefail; cd "$1"; git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do if [ -e "$f" ]; then printf '%s\0' "$f"; fi; done | tar --null -T - -cf - | tar -xf - -C "$2"`,
		"copy", root, to)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy the tree: %w: %s", err, out)
	}
	return nil
}

// plant applies one patch, plays, and takes it out again. It says what came of it, and whether the bug was found as it should be.
func plant(ctx context.Context, work string, p patch.Patch, runs int) (string, bool) {
	if out, err := patch.Apply(ctx, work, p.File); err != nil {
		return "does not apply: " + out, false
	}
	defer func() { _, _ = patch.Apply(context.WithoutCancel(ctx), work, p.File, "-R") }()
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(work, "soak"), "./model/soak")
	build.Dir = filepath.Join(work, "e2e")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Sprintf("does not build: %s", out), false
	}
	play := exec.CommandContext(ctx, filepath.Join(work, "soak"), "-shrink=false", "-runs", fmt.Sprint(runs), "-traces", filepath.Join(work, "e2e", "model", "testdata", "traces"))
	out, err := play.CombinedOutput()
	if err == nil {
		return "SURVIVES", false
	}
	at := strings.LastIndex(string(out), "broken: ")
	if at < 0 {
		return "fails without breaking a promise: " + string(out), false
	}
	words := strings.Fields(string(out)[at:])
	promise := strings.TrimSuffix(words[min(2, len(words)-1)], ":")
	if !slices.Contains(p.Breaks, promise) {
		return fmt.Sprintf("breaks %s, its patch says %s: %s", promise, strings.Join(p.Breaks, ", "), strings.TrimSpace(string(out)[at:])), false
	}
	return strings.TrimSpace(string(out)[at:]), true
}
