// Command controlplane builds and runs the control plane of package controlplane by hand:
//
//	controlplane build             build the binaries if needed and print their folder
//	controlplane build -oldest     also those of the oldest minor
//	controlplane build -all        those of all minors, and of the one before the oldest
//	controlplane build -node       build kubelet, kubeadm and kube-proxy if needed and print their
//	                               folder
//	controlplane up [-minor 1.34]  start a control plane with a default scheduler and run it until
//	                               SIGINT or SIGTERM
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

var errUsage = errors.New(
	"usage: controlplane build [-oldest | -all | -node] | up [-minor minor] [-logs folder] [-audit] [-scheduler=false]",
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "build":
		return build(ctx, args[1:], out, progress)
	case "up":
		return up(ctx, args[1:], out, progress)
	default:
		return errUsage
	}
}

func build(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(progress)
	oldest := flags.Bool("oldest", false, "build those of the oldest minor too")
	all := flags.Bool("all", false, "build those of all minors, and of the one before the oldest")
	node := flags.Bool("node", false, "build what runs on a node instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *node {
		return buildNode(ctx, out, progress)
	}
	minors := []string{""}
	if *oldest {
		minors = append(minors, controlplane.Minors()[0])
	}
	if *all {
		minors = append(controlplane.Minors(), controlplane.BeforeOldest)
	}
	for _, minor := range minors {
		binaries, err := controlplane.BuildMinor(ctx, minor, progress)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, binaries.Dir)
	}
	return nil
}

func buildNode(ctx context.Context, out, progress io.Writer) error {
	dir, err := controlplane.BuildNode(ctx, progress)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, dir)
	return err
}

func up(ctx context.Context, args []string, out, progress io.Writer) error {
	options := controlplane.Options{Progress: progress}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&options.Minor, "minor", "", "Kubernetes minor, one of "+strings.Join(controlplane.Minors(),
		", ")+"; empty: the newest")
	flags.StringVar(&options.LogDir, "logs", "", "folder that keeps the logs; empty: they are removed at the end")
	flags.BoolVar(&options.AuditLog.Enabled, "audit", false, "record every write in audit.log beside the other logs")
	flags.BoolVar(&options.DefaultScheduler, "scheduler", true, "start a kube-scheduler with the default configuration")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\nkubectl: %s\nlogs: %s\n", plane.Kubeconfig(), plane.KubectlPath(),
		plane.LogDir())
	<-ctx.Done()
	fmt.Fprintln(progress, "controlplane: stopping")
	return plane.Stop()
}
