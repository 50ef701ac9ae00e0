// Command check gives the Makefile the checks of package house:
//
//	check test -record FILE -dir FOLDER [-v] [-again N] -- go test arguments
//	                                                                run tests in a module and record what they did; where at most N failed, each of
//	                                                                them once more, alone
//	check results -command "make test" -records FOLDER [-root ..]   the done acceptance points of that command ran and passed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stratos-sh/stratos/e2e/house"
)

var errUsage = errors.New("usage: check test -record FILE [-dir FOLDER] [-v] [-again N] -- ARGUMENTS | check results -command COMMAND -records FOLDER [-root FOLDER]")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, complaints io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "test":
		return test(ctx, args[1:], out, complaints)
	case "results":
		return results(args[1:], out)
	}
	return errUsage
}

func test(ctx context.Context, args []string, out, complaints io.Writer) (err error) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	record := flags.String("record", "", "file for the record, written anew")
	dir := flags.String("dir", ".", "folder of the module")
	verbose := flags.Bool("v", false, "show the output of passing tests too")
	again := flags.Int("again", 0, "how many failed tests at most are run once more, each alone; more than that is no accident")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *record == "" {
		return errUsage
	}
	if err := os.MkdirAll(filepath.Dir(*record), 0o755); err != nil {
		return err
	}
	file, err := os.Create(*record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	recorder := house.NewRecorder(file, out)
	recorder.Verbose = *verbose
	err = goTest(ctx, *dir, flags.Args(), recorder, complaints)
	if err == nil || *again == 0 || ctx.Err() != nil {
		return err
	}
	failed, known := recorder.Failed()
	if !known || len(failed) == 0 || len(failed) > *again {
		return err
	}
	return runAgain(ctx, *dir, failed, recorder, out, complaints)
}

// runAgain gives tests that failed beside others a second run, alone. Suites on a real control plane share two cores with what runs beside them; what fails
// there and not alone is said aloud, here and by `check results`, and is somebody's work, but it does not hide what everything else has shown.
func runAgain(ctx context.Context, dir string, failed []house.FailedTest, recorder *house.Recorder, out, complaints io.Writer) error {
	var problems error
	for _, f := range failed {
		fmt.Fprintf(out, "AGAIN %s %s\n", f.Package, f.Test)
		if err := goTest(ctx, dir, []string{"-count=1", "-timeout", againTimeout.String(), "-run", f.Pattern(), f.Package}, recorder, complaints); err != nil {
			problems = errors.Join(problems, fmt.Errorf("%s %s failed twice: %w", f.Package, f.Test, err))
			continue
		}
		fmt.Fprintf(out, "UNSTABLE %s %s: failed beside other tests, passed alone\n", f.Package, f.Test)
	}
	return problems
}

// againTimeout is the hang guard of one test alone.
const againTimeout = 15 * time.Minute

// goodbye is how long the tests may take to end what they started once we were told to stop.
const goodbye = 30 * time.Second

func goTest(ctx context.Context, dir string, args []string, recorder *house.Recorder, complaints io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = goodbye
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(recorder.Copy(events), cmd.Wait())
}

func results(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("results", flag.ContinueOnError)
	command := flags.String("command", "", "command whose acceptance points are checked")
	records := flags.String("records", "", "folder with the records of that command")
	root := flags.String("root", ".", "root of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *command == "" || *records == "" {
		return errUsage
	}
	rows, err := house.ReadRows(filepath.Join(*root, "docs", "acceptance.md"))
	if err != nil {
		return err
	}
	sources, err := house.ReadSources(*root)
	if err != nil {
		return err
	}
	ran, err := house.ReadResults(*records)
	if err != nil {
		return err
	}
	problems := house.CheckResults(rows, *command, sources, ran)
	for _, problem := range problems {
		fmt.Fprintln(out, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems with what %q ran", len(problems), *command)
	}
	for _, name := range ran.Unstable() {
		fmt.Fprintf(out, "UNSTABLE %s: failed beside other tests, passed alone\n", name)
	}
	fmt.Fprintf(out, "%d tests ran; every done acceptance point of %q passed\n", len(ran), *command)
	return nil
}
