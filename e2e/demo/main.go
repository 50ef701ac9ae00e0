// Command demo plays the main job of Stratos on a real control plane with a played cloud, and
// measures it: a pool warms up to standby, a burst of pods starts stopped nodes, the pods run, and
// the empty nodes go back to standby. docs/demo.md says what its numbers mean.
//
// PROVIDER=aws in the environment lets Stratos call the cloud through EC2's API. With KEEP=1
// everything stays up at the end, until Ctrl-C. The exit status is 0 only if all of it happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	// startLimit holds a build from nothing on a slow machine, playLimit ten times what the play
	// takes. Both are hang guards.
	startLimit = 30 * time.Minute
	playLimit  = 10 * time.Minute
)

// errInterrupted: a person ended the demo before it was over, so the logs are not needed.
var errInterrupted = errors.New("interrupted")

func main() {
	// SIGPIPE too: `make demo | head` shall end everything cleanly instead of dying in the middle.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the clean end
	err := run(ctx, newScreen(os.Stdout), framework.Provider(os.Getenv("PROVIDER")), os.Getenv("KEEP") == "1")
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// run starts everything, plays and ends everything. Logs stay only where a person will want to read
// them.
func run(ctx context.Context, out *screen, provider framework.Provider, keep bool) (err error) {
	cloud, err := cloudOf(provider)
	if err != nil {
		return err
	}
	began := time.Now()
	logs, err := os.MkdirTemp("", "stratos-demo-logs-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil || errors.Is(err, errInterrupted) {
			err = errors.Join(err, os.RemoveAll(logs))
		}
	}()
	out.line("Stratos demo: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,")
	out.line("stratos and " + cloud + ", each a process of its own on this machine.")
	out.line("")
	r, err := start(ctx, out, provider, logs)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	defer func() {
		out.line("Stopping everything.")
		err = errors.Join(err, r.Close())
	}()
	out.line("everything is up after %s", seconds(time.Since(began)))
	out.line("")
	result, err := play(ctx, out, r)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	}
	out.lines(result.summary())
	if err = errors.Join(err, result.verdict()); err != nil {
		out.lines(logTails(logs))
	}
	if keep {
		out.lines(farewell(r.ControlPlane.Kubeconfig(), r.ControlPlane.KubectlPath()))
		<-ctx.Done()
	}
	return err
}

// cloudOf says what plays the cloud.
func cloudOf(provider framework.Provider) (string, error) {
	switch provider {
	case "", framework.ProviderFake:
		return "a fake cloud", nil
	case framework.ProviderAWS:
		return "a server that speaks EC2", nil
	}
	return "", fmt.Errorf("PROVIDER=%s: the demo can play %s and %s", provider, framework.ProviderFake, framework.ProviderAWS)
}

func start(ctx context.Context, out *screen, provider framework.Provider, logs string) (*framework.Rig, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not up within %s", startLimit))
	defer cancel()
	r, err := framework.New(ctx, framework.Options{ControlPlane: controlplane.Options{LogDir: logs}, Provider: provider,
		Progress: out})
	if err != nil {
		return nil, fmt.Errorf("start (logs in %s): %w", logs, err)
	}
	return r, nil
}

// farewell says what can be done with what stays up.
func farewell(kubeconfig, kubectl string) []string {
	return []string{
		"",
		"KEEP=1: everything stays up until Ctrl-C. In another terminal:",
		"",
		"  export KUBECONFIG=" + kubeconfig,
		"  alias kubectl=" + kubectl,
		"  kubectl get nodepools",
		"  kubectl get nodes -L stratos.sh/state --watch",
		"  kubectl run hello --image=registry.example/app:1 \\",
		`    --overrides='{"spec":{"schedulerName":"stratos-scheduler"}}'`,
		"  kubectl get events --watch",
		"  kubectl delete pod hello",
		"",
	}
}

// logTails is the end of every log of Stratos, the cloud and the scheduler, and where all logs are.
func logTails(folder string) []string {
	lines := []string{"", "Logs are kept in " + folder}
	for _, name := range []string{"fake-cloud", "ec2test", "stratos-scheduler", "stratos"} {
		path := filepath.Join(folder, name+".log")
		if _, err := os.Stat(path); os.IsNotExist(err) {
			continue // of the clouds one alone plays
		}
		lines = append(lines, "", "--- end of "+path)
		data, err := os.ReadFile(path)
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		lines = append(lines, lastLines(string(data), 12)...)
	}
	return append(lines, "")
}
