// Command release builds a release of Stratos (build) and pushes it to a registry (push).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/stratos-sh/stratos/e2e/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	root := flags.String("root", "../..", "root of the repository")
	folder := flags.String("folder", "", "folder of the release (default dist/release of the root)")
	version := flags.String("version", "", "build: version such as v0.2.0-rc.1")
	registry := flags.String("registry", "", "push: registry and path such as ghcr.io/stratos-sh")
	key := flags.String("key", "", "private key of cosign to sign with")
	keyless := flags.Bool("keyless", false, "sign with the identity of the workflow")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: release build|push [flags]")
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return fmt.Errorf("want build or push")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *folder == "" {
		*folder = filepath.Join(*root, "dist", "release")
	}
	signer := release.Signer{Key: *key, Keyless: *keyless}
	switch args[0] {
	case "build":
		return release.Build(ctx, release.Options{Root: *root, Version: *version, Folder: *folder, Signer: signer,
			Log: os.Stdout})
	case "push":
		return release.Push(ctx, release.PushOptions{Root: *root, Folder: *folder, Registry: *registry, Signer: signer,
			Login: release.Login{User: os.Getenv("REGISTRY_USER"), Password: os.Getenv("REGISTRY_PASSWORD")},
			Log:   os.Stdout})
	}
	flags.Usage()
	return fmt.Errorf("unknown command %q", args[0])
}
