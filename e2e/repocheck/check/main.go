// Command check gives the Makefile the checks of package repocheck:
//
//	check rerun
//		after gotestsum ran failed tests again ($GOTESTSUM_JSONFILE is the record):
//		names what passed only then, fails when tests were left out
//	check results -command "make test" -records FOLDER [-root ..]
//		the done acceptance points of that command ran and passed
//	check pages ROOT
//		writes docs/acceptance.md and docs/reliability.md from docs/guarantees.yaml
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/stratos-sh/stratos/e2e/repocheck"
)

var errUsage = errors.New("usage: check rerun, with GOTESTSUM_JSONFILE set | " +
	"check results -command COMMAND -records FOLDER [-root FOLDER] | check pages ROOT")

func main() {
	if err := run(os.Args[1:], os.Getenv("GOTESTSUM_JSONFILE"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(args []string, record string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch {
	case args[0] == "rerun" && len(args) == 1 && record != "":
		return rerun(record, out)
	case args[0] == "results":
		return results(args[1:], out)
	case args[0] == "pages" && len(args) == 2:
		list, err := repocheck.ReadGuarantees(args[1])
		if err != nil {
			return err
		}
		return list.WritePages(args[1])
	}
	return errUsage
}

// rerun names what passed only when it ran again, and fails where tests were left out.
func rerun(record string, out io.Writer) error {
	ran := repocheck.Results{}
	if err := ran.ReadFile(record); err != nil {
		return err
	}
	tellUnstable(ran, out)
	problems := ran.CheckRerun()
	for _, problem := range problems {
		fmt.Fprintln(out, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("tests were left out, see %s", record)
	}
	return nil
}

// tellUnstable names the tests that passed only alone: the product or the test has a race.
func tellUnstable(ran repocheck.Results, out io.Writer) {
	for _, name := range ran.Unstable() {
		fmt.Fprintf(out, "UNSTABLE %s: failed beside other tests, passed alone\n", name)
	}
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
	list, err := repocheck.ReadGuarantees(*root)
	if err != nil {
		return err
	}
	sources, err := repocheck.ReadSources(*root)
	if err != nil {
		return err
	}
	ran, err := repocheck.ReadResults(*records)
	if err != nil {
		return err
	}
	problems := repocheck.CheckResults(list, *command, sources, ran)
	for _, problem := range problems {
		fmt.Fprintln(out, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems with what %q ran", len(problems), *command)
	}
	tellUnstable(ran, out)
	fmt.Fprintf(out, "%d tests ran; every done acceptance point of %q passed\n", len(ran), *command)
	return nil
}
