package subcommand

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
)

// TestExitCodes: bad arguments are told from what is wrong with an installation.
func TestExitCodes(t *testing.T) {
	for name, args := range map[string][]string{
		"an argument":            {"now"},
		"an unknown flag":        {"--what"},
		"no kubeconfig":          {"--kubeconfig=" + filepath.Join(t.TempDir(), "none")},
		"a flag without a value": {"--namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := checkInstallation()
			cmd.SetArgs(args)
			cmd.SetOut(io.Discard)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil || ExitCode(err) != 2 {
				t.Errorf("error %v, exit code %d", err, ExitCode(err))
			}
		})
	}
	if got := ExitCode(fmt.Errorf("wrapped: %w", misused(errors.New("x")))); got != 2 {
		t.Errorf("a wrapped error has exit code %d", got)
	}
	if got := ExitCode(errors.New("something is wrong")); got != 1 {
		t.Errorf("another error has exit code %d", got)
	}
}
