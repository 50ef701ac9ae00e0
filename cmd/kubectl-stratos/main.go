// Command kubectl-stratos is a plugin of kubectl: it says why pods are pending, shows the pools and
// their nodes, and pauses pools.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/command"
)

// version is set by the linker (make build).
var version = "dev"

func main() {
	log.SetLogger(logr.Discard()) // errors are told once, by this function
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	root := command.New(version, os.Stdin, os.Stdout, os.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, command.Words(err))
		os.Exit(1)
	}
}
