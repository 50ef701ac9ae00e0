package subcommand

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/render"
	"github.com/stratos-sh/stratos/stacks/source"
)

func stackRender() *cobra.Command {
	cmd := &cobra.Command{Use: "render", Short: "Print the objects of a release, by the helm on PATH as the operator does",
		Args: cobra.NoArgs}
	cmd.AddCommand(stackRenderClass(), stackRenderAddons())
	return cmd
}

// openRelease reads a release, or makes one of a stack's folder, packed or not, with the versions
// of its metadata.yaml.
func openRelease(folder string) (*release.Release, error) {
	if _, err := os.Stat(filepath.Join(folder, format.ConfigFile)); err == nil {
		s, err := source.Open(folder)
		if err != nil {
			return nil, err
		}
		return release.Create(s, release.Custom, s.Metadata.Versions)
	}
	tag, all, err := readRelease(folder)
	if err != nil {
		return nil, err
	}
	r, err := release.Open(tag, all)
	if err != nil {
		err = fmt.Errorf("%s: must be a release, or a stack with %s: %w", folder, format.ConfigFile, err)
	}
	return r, err
}

func stackRenderClass() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "class FOLDER",
		Short: "Print the class of a release or of a stack, for the management cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			helm, err := render.FindHelm()
			if err != nil {
				return err
			}
			r, err := openRelease(args[0])
			if err != nil {
				return err
			}
			objects, err := helm.Class(cmd.Context(), r, namespace)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(objects)
			return err
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "the namespace of the class, which is that of its clusters")
	return cmd
}

func stackRenderAddons() *cobra.Command {
	var file, stage string
	cmd := &cobra.Command{
		Use:   "addons FOLDER",
		Short: "Print the addons of a release or stack for a Cluster, stage by stage, for its namespace kube-system",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			helm, err := render.FindHelm()
			if err != nil {
				return err
			}
			objects, err := readClusterObjects(cmd, file)
			if err != nil {
				return err
			}
			r, err := openRelease(args[0])
			if err != nil {
				return err
			}
			stages, err := helm.Addons(cmd.Context(), r, objects, stage)
			if err != nil {
				return err
			}
			return printStages(cmd.OutOrStdout(), stages)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", clusterFileUsage)
	cmd.Flags().StringVar(&stage, "stage", "", "print this stage alone")
	cobra.CheckErr(cmd.MarkFlagRequired("filename"))
	return cmd
}

const clusterFileUsage = "file with the Cluster, - for stdin; its control plane and infrastructure cluster may be there too (required)"

func readClusterObjects(cmd *cobra.Command, file string) (render.Objects, error) {
	text, err := readFile(cmd, file)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	objects, err := render.ParseObjects(text)
	if err != nil {
		err = fmt.Errorf("-f %s: %w", file, err)
	}
	return objects, err
}

func readFile(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

// printStages prints what must be true before and after a stage as comments, because the user who
// applies the stages has to wait for it.
func printStages(out io.Writer, stages []render.Stage) error {
	for _, s := range stages {
		fmt.Fprintf(out, "# Stage %s: %s\n", s.Name, s.Action)
		printCondition(out, "before", s.WaitForPreCondition)
		printCondition(out, "after", s.WaitForPostCondition)
		if _, err := out.Write(s.Objects); err != nil {
			return err
		}
	}
	return nil
}

func printCondition(out io.Writer, when string, c format.Condition) {
	if c.Conditions == "" {
		return
	}
	fmt.Fprintf(out, "# Must be true %s it: %s\n", when, strings.Join(strings.Fields(c.Conditions), " "))
	for _, o := range c.Objects {
		fmt.Fprintf(out, "#   %s is %s %s %s\n", o.Key, o.APIVersion, o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	}
}
