// Command karpenter builds the Karpenter of the suites into the cache unless it is there, and
// prints its path.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stratos-sh/stratos/e2e/framework"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	built, err := framework.BuildKarpenter(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, built.Path)
}
