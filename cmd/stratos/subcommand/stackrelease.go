package subcommand

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/nodeimage"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/store"
)

func stackCharts() *cobra.Command {
	return &cobra.Command{
		Use:   "charts FOLDER",
		Short: "Fetch the charts of charts.lock in FOLDER from the Go modules that carry them, by the go on PATH",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lock, err := source.ReadLock(args[0])
			if err != nil {
				return err
			}
			var problems []error
			for i := range lock.Charts {
				c := &lock.Charts[i]
				fetched, err := lock.Fetch(cmd.Context(), c, source.GoModDownload)
				problems = append(problems, err)
				if fetched {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of %s@%s\n", lock.FolderOf(c), c.Path, c.Module, c.Version)
				}
			}
			return errors.Join(problems...)
		},
	}
}

func stackPack() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "pack FOLDER",
		Short: "Copy a stack with all charts that it depends on unpacked in it, which csctl can read",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := source.Open(args[0])
			if err != nil {
				return err
			}
			packed, err := s.Pack()
			if err == nil {
				err = packed.WriteNew(output)
			}
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), output)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the new folder (required)")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	return cmd
}

// createOptions are the flags of create.
type createOptions struct {
	mode, output string
	record       bool
	custom       format.Versions
}

func stackCreate() *cobra.Command {
	o := createOptions{}
	cmd := &cobra.Command{
		Use:   "create FOLDER",
		Short: "Make the release of a stack, with csctl's file names and contents",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := o.create(cmd, args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), to)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.mode, "mode", "m", string(release.Stable), "how versions are chosen: stable takes those of metadata.yaml, "+
		"hash makes them of the content, custom takes those of the flags")
	fs.StringVarP(&o.output, "output", "o", ".release", "the folder in which the release gets a folder with its tag's name")
	fs.BoolVar(&o.record, "record", false, "write the release's hashes.json into FOLDER, from which the next versions are counted; in mode stable alone")
	fs.StringVar(&o.custom.ClusterStack, "cluster-stack-version", "", "the stack's version in mode custom")
	fs.StringVar(&o.custom.Components.ClusterAddon, "cluster-addon-version", "", "the addons' version in mode custom")
	fs.StringVar(&o.custom.Components.NodeImage, "node-image-version", "", "the node image's version in mode custom")
	return cmd
}

func (o *createOptions) create(cmd *cobra.Command, folder string) (string, error) {
	if o.record && o.mode != string(release.Stable) {
		return "", fmt.Errorf("--record needs --mode %s: the next versions are counted from a stable release", release.Stable)
	}
	s, err := source.Open(folder)
	if err != nil {
		return "", err
	}
	r, err := release.Create(s, release.Mode(o.mode), o.custom)
	if err != nil {
		return "", err
	}
	if nodeimage.IsSet(s.Config) {
		// Before anything is written, so that a failed build leaves no release.
		images, err := createNodeImages(cmd, folder, s.Config, *r.Hashes.Versions, s.Files)
		if err != nil {
			return "", err
		}
		r.Files[format.NodeImagesFile] = files.File{Data: images}
	}
	to, err := store.Folder(o.output).Publish(cmd.Context(), r.Tag.String(), r.Files)
	if err == nil && o.record {
		err = os.WriteFile(filepath.Join(folder, format.HashesFile), r.Files[format.HashesFile].Data, 0o644)
	}
	return to, err
}

// storeOf is the folder, or the registry of the environment where none is named.
func storeOf(folder string) (store.Store, error) {
	if folder != "" {
		return store.Folder(folder), nil
	}
	return store.FromEnv(os.Getenv)
}

const registryUsage = "default: the OCI registry of OCI_REGISTRY and OCI_REPOSITORY, with OCI_ACCESS_TOKEN, or OCI_USERNAME and OCI_PASSWORD"

// readRelease reads a release's folder. Its name is the tag.
func readRelease(folder string) (string, files.Files, error) {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return "", nil, err
	}
	all, err := files.Read(whole)
	return filepath.Base(whole), all, err
}

func stackPublish() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "publish RELEASE",
		Short: "Publish a release's folder to an OCI registry or another folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tag, all, err := readRelease(args[0])
			if err != nil {
				return err
			}
			if problems := validateRelease(args[0]); len(problems) > 0 {
				return problems[0]
			}
			s, err := storeOf(to)
			if err != nil {
				return err
			}
			at, err := s.Publish(cmd.Context(), tag, all)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), at)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the folder of releases; "+registryUsage)
	return cmd
}

func stackList() *cobra.Command {
	var from, output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the releases of an OCI registry or a folder, with their versions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %q must be table or json", output)
			}
			s, err := storeOf(from)
			if err != nil {
				return err
			}
			entries, warnings, err := store.List(cmd.Context(), s)
			for _, warning := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
			}
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), entries, output)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the folder of releases; "+registryUsage)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printList(out io.Writer, entries []store.Entry, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]store.Entry{}, entries...))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tKUBERNETES\tSTACK\tADDON\tNODE IMAGE\tCLUSTERCLASS")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Tag, e.Kubernetes, e.ClusterStack, e.ClusterAddon, e.NodeImage, e.ClusterClass)
	}
	return w.Flush()
}

func stackDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff RELEASE RELEASE",
		Short: "Say which layers and objects differ between two releases' folders, and which machines are replaced",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, before, err := readRelease(args[0])
			if err != nil {
				return err
			}
			_, after, err := readRelease(args[1])
			if err != nil {
				return err
			}
			d, err := release.Compare(before, after)
			if err != nil {
				return err
			}
			for _, part := range []struct {
				title string
				lines []string
				none  string
			}{{"Layers", d.Layers, "no version differs"}, {"Objects", d.Objects, "no object differs"},
				{"Machines are replaced because of", d.Machines, "nothing: all machines stay"}} {
				fmt.Fprintln(cmd.OutOrStdout(), part.title+":")
				for _, line := range part.lines {
					fmt.Fprintln(cmd.OutOrStdout(), "  "+line)
				}
				if len(part.lines) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "  "+part.none)
				}
			}
			return nil
		},
	}
}
