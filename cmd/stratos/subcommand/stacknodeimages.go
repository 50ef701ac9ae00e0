package subcommand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/nodeimage"
	"github.com/stratos-sh/stratos/stacks/release"
)

// pluginName is the name under which csctl calls this program for a stack of the provider aws.
const pluginName = "csctl-aws"

// Named is the command of the program under the name that it was called by: csctl's plugin, or the
// main one.
func Named(program string, main *cobra.Command) *cobra.Command {
	if filepath.Base(program) == pluginName {
		return csctlPlugin()
	}
	return main
}

func csctlPlugin() *cobra.Command {
	cmd := &cobra.Command{Use: pluginName, Short: "The plugin by which csctl makes the node images of a stack for EC2",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true}
	cmd.AddCommand(&cobra.Command{
		Use:   "create-node-images STACKDIR RELEASEDIR [REGISTRY]",
		Short: "Write " + format.NodeImagesFile + " into a release, and build the images where csctl.yaml says so",
		Long: "Write " + format.NodeImagesFile + " into a release as config.provider.config of csctl.yaml says. Where a build\n" +
			"fails, the release is removed. REGISTRY must be left out or empty: EC2 keeps images itself.",
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 && args[2] != "" {
				return fmt.Errorf("REGISTRY %q must be left out: EC2 keeps images itself", args[2])
			}
			return addNodeImages(cmd, args[0], args[1])
		},
	})
	return cmd
}

// addNodeImages writes node-images.yaml into the folder of a release that csctl has made.
func addNodeImages(cmd *cobra.Command, stackFolder, releaseFolder string) error {
	config, errConfig := parseFile(stackFolder, format.ConfigFile, format.ParseConfig)
	metadata, errMetadata := parseFile(releaseFolder, format.MetadataFile, format.ParseMetadata)
	all, errFiles := files.Read(stackFolder)
	if err := errors.Join(errConfig, errMetadata, errFiles); err != nil {
		return err
	}
	text, err := createNodeImages(cmd, stackFolder, config, metadata.Versions, all)
	if err != nil {
		// It is a release, because its metadata.yaml is one.
		return errors.Join(err, os.RemoveAll(releaseFolder))
	}
	return os.WriteFile(filepath.Join(releaseFolder, format.NodeImagesFile), text, 0o644)
}

func parseFile[T any](folder, name string, parse func([]byte) (*T, error)) (*T, error) {
	file := filepath.Join(folder, name)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	value, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return value, nil
}

// createNodeImages returns node-images.yaml. all are the files of the stack's folder.
func createNodeImages(cmd *cobra.Command, folder string, config *format.Config, versions format.Versions,
	all files.Files) ([]byte, error) {
	parsed, err := nodeimage.ParseConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, format.ConfigFile), err)
	}
	instructions := release.ReplaceTokens(all.Below(format.NodeImageFolder), versions)
	return nodeimage.Create(cmd.Context(), parsed, &versions, instructions, cmd.ErrOrStderr())
}
