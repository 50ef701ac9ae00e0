// Command kubectl-stratos is a plugin of kubectl: it says why pods are pending, shows the pools and
// their nodes, pauses pools and has nodes replaced.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/command"
)

// version is set by the linker (make build).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(command.Main(ctx, version, os.Args))
}
