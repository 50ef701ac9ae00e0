package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Options are what Build needs.
type Options struct {
	// Root of the repository.
	Root string
	// Version such as v0.2.0-rc.1.
	Version string
	// Folder that the release is written to. An earlier release there is replaced.
	Folder string
	Signer Signer
	Log    io.Writer
}

// Build checks the tree and writes a release into the folder. Nothing is built of a tree that is
// refused, and a build that fails leaves the folder as it was.
func Build(ctx context.Context, o Options) error {
	s, err := openSource(ctx, o.Root, o.Version)
	if err != nil {
		return err
	}
	if err := errors.Join(o.Signer.check(), replaceable(o.Folder)); err != nil {
		return err
	}
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := s.build(ctx, work, o); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(work, 0o755), os.RemoveAll(folder)); err != nil {
		return err
	}
	return os.Rename(work, folder)
}

// replaceable refuses to remove a folder that holds no release.
func replaceable(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(folder, sumsFile)); err != nil {
		return fmt.Errorf("%s holds no release: remove it or name another folder", folder)
	}
	return nil
}

func (s source) build(ctx context.Context, folder string, o Options) error {
	for _, p := range pluginPlatforms() {
		fmt.Fprintf(o.Log, "plugin for %s/%s\n", p.os, p.arch)
		if err := s.buildPlugin(ctx, p, folder); err != nil {
			return err
		}
	}
	if err := s.writeKrewManifest(folder, pluginPlatforms()); err != nil {
		return err
	}
	fmt.Fprintln(o.Log, "image")
	digest, trial, err := s.buildImage(ctx, folder)
	if err != nil {
		return err
	}
	for _, chart := range charts() {
		fmt.Fprintf(o.Log, "chart %s\n", chart)
		if err := s.packageChart(chart, digest, folder); err != nil {
			return fmt.Errorf("chart %s: %w", chart, err)
		}
	}
	if err := s.writeNotes(folder, digest, trial); err != nil {
		return err
	}
	if err := writeChecksums(folder); err != nil {
		return err
	}
	if o.Signer.signs() {
		err := o.Signer.signFile(ctx, o.Root, filepath.Join(folder, sumsFile), filepath.Join(folder, signatureFile))
		if err != nil {
			return err
		}
	}
	report(o.Log, digest, trial, o.Signer.signs())
	return nil
}

func report(log io.Writer, digest string, trial, signed bool) {
	fmt.Fprintf(log, "image %s\n", digest)
	if trial {
		fmt.Fprint(log, "NOT RUN: the image on distroless. ", trialText)
	}
	if !signed {
		fmt.Fprintf(log, "NOT RUN: signing. KEY= names a key.\n")
	}
}
