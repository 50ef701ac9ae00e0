// Command bench plays the scenarios of package scenario and writes what they measured: a table to
// standard output, JSON into a folder and, if asked, the table into a page of the docs.
// docs/performance.md says how it measures. What a scenario could not measure is a row that says
// why; the others are played all the same. The exit status is 1 if anything was not measured or an
// exact number was missed, 0 also where a target of time was missed.
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
	"github.com/stratos-sh/stratos/e2e/bench/scenario"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the clean end
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	names := fs.String("scenario", "", "scenarios to play, separated by commas; default: all")
	scale := fs.String("scale", "1", "part of the full size, such as 1/8")
	folder := fs.String("out", "dist/bench", "folder for the JSON")
	page := fs.String("page", "", "page to write the table into, between its markers")
	profiles := fs.String("profiles", "",
		"folder for profiles of Stratos and the schedulers, by scenario; default: none are taken")
	budget := fs.Duration("budget", 90*time.Minute, "hang guard of the whole: what is not over then is not measured")
	if err := fs.Parse(args); err != nil {
		return err
	}
	share, err := parseScale(*scale)
	if err != nil {
		return err
	}
	chosen, err := scenario.Chosen(*names)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *budget, fmt.Errorf("no time left of %s", *budget))
	defer cancel()
	report := play(ctx, chosen, scenario.Run{Scale: share, Progress: progress, Profiles: *profiles})
	report.Settings = append(report.Settings, figures.Setting{Name: "scale", Value: *scale})
	if err := report.WriteText(out); err != nil {
		return err
	}
	if err := env.Keep(report, *folder, "bench.json", *page, "bench"); err != nil {
		return err
	}
	if n := report.Count(figures.NotMeasured); n > 0 {
		return fmt.Errorf("%d rows were not measured", n)
	}
	return nil
}

func play(ctx context.Context, chosen []scenario.Scenario, with scenario.Run) figures.Report {
	report := figures.Report{Began: time.Now(), Machine: env.Machine(), Settings: env.Settings(env.BootTime),
		Took: map[string]string{}}
	for _, s := range chosen {
		if ctx.Err() != nil {
			report.Rows = append(report.Rows, figures.Row{Scenario: s.Name, Name: s.What, Failure: context.Cause(ctx).Error()})
			continue
		}
		fmt.Fprintf(with.Progress, "%s: %s\n", s.Name, s.What)
		began := time.Now()
		rows, series := scenario.Play(ctx, s, with)
		report.Rows, report.Series = append(report.Rows, rows...), append(report.Series, series...)
		took := time.Since(began).Round(time.Second)
		report.Took[s.Name] = took.String()
		fmt.Fprintf(with.Progress, "%s: took %s\n", s.Name, took)
	}
	total := time.Since(report.Began).Round(time.Second)
	report.Settings = append(report.Settings, figures.Setting{Name: "took", Value: total.String()})
	return report
}

var errScale = errors.New("the scale is a number above 0 and at most 1, such as 1/8 or 0.5")

func parseScale(text string) (float64, error) {
	above, below, isFraction := strings.Cut(text, "/")
	value, err := strconv.ParseFloat(above, 64)
	if err != nil {
		return 0, errScale
	}
	if isFraction {
		by, err := strconv.ParseFloat(below, 64)
		if err != nil || by == 0 {
			return 0, errScale
		}
		value /= by
	}
	if !(value > 0 && value <= 1) {
		return 0, errScale
	}
	return value, nil
}
