package framework

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
)

// Command is a command of the stratos under test, not started.
func (r *Rig) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, r.binary, args...)
}

// Check runs `stratos check` as the administrator and returns what it prints to stdout, and its
// exit code. An error means that it did not run.
func (r *Rig) Check(ctx context.Context, args ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, HangGuard)
	defer cancel()
	var printed bytes.Buffer
	cmd := r.Command(ctx, append([]string{"check", "--kubeconfig=" + r.ControlPlane.Kubeconfig()}, args...)...)
	cmd.Env, cmd.Stdout = append(os.Environ(), r.providerEnv()...), &printed
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Exited() {
		return printed.String(), ended.ExitCode(), nil
	}
	return printed.String(), 0, err
}
