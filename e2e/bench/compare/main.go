// Command compare has the same pods wait for a node twice on one control plane: once for a stopped
// node of Stratos's, once for a new one of Karpenter's. It tells how long after the pod's creation
// each asked for the machine, and what each process used meanwhile. docs/performance.md says how it
// measures. The exit status is 1 if anything was not measured, or if for one pod Stratos was not at
// least twenty times sooner.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

// sooner is how many times sooner the start for one pod must be asked for, at p50.
const sooner = 20

// limit is the hang guard of all.
const limit = 40 * time.Minute

var errNotSooner = fmt.Errorf(
	"for one pod the start was not asked for %d times sooner than Karpenter's first NodeClaim",
	sooner,
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the clean end
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench-compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	fs := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	planned := fs.String("plan", "1x10,50x3,500x2,1000x2", "pods x rounds, separated by commas")
	idle := fs.Duration("idle", 20*time.Second, "how long both do nothing while what they use is counted")
	folder := fs.String("out", "dist/bench", "folder for the JSON")
	page := fs.String("page", "", "page to write the table into, between its markers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	plan, err := parsePlan(*planned)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not over within %s", limit))
	defer cancel()
	report := figures.Report{Began: time.Now(), Machine: env.Machine(), Settings: env.Settings(boot)}
	err = compare(ctx, plan, *idle, &report, progress)
	if err != nil {
		report.Rows = append(report.Rows, figures.Row{Scenario: "compare", Name: "the comparison", Failure: err.Error()})
	}
	report.Settings = append(report.Settings, figures.Setting{Name: "took",
		Value: time.Since(report.Began).Round(time.Second).String()})
	err = errors.Join(err, report.WriteText(out), env.Keep(report, *folder, "compare.json", *page, "compare"))
	return errors.Join(err, verdict(report))
}

// verdict fails where the row of one pod's first machine is not met. Other targets are for the
// table.
func verdict(report figures.Report) error {
	for _, row := range report.Rows {
		if row.Name == firstOf(1) && row.Verdict() != figures.Met {
			return errNotSooner
		}
	}
	return nil
}

// stage is so many rounds of so many pods.
type stage struct{ pods, rounds int }

func parsePlan(text string) ([]stage, error) {
	var plan []stage
	for part := range strings.SplitSeq(text, ",") {
		pods, rounds, found := strings.Cut(part, "x")
		s := stage{}
		var err, err2 error
		s.pods, err = strconv.Atoi(pods)
		s.rounds, err2 = strconv.Atoi(rounds)
		if !found || err != nil || err2 != nil || s.pods < 1 || s.pods > maxPods || s.rounds < 1 {
			return nil, fmt.Errorf("%q is not pods x rounds, such as 50x5, with 1 to %d pods", part, maxPods)
		}
		plan = append(plan, s)
	}
	return plan, nil
}
