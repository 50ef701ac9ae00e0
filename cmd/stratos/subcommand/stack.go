package subcommand

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stratos-sh/stratos/stacks/bump"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/validate"
)

// nothingToBump is the exit code of bump where each version is already right.
const nothingToBump = 3

func stack() *cobra.Command {
	cmd := &cobra.Command{Use: "stack", Short: "Version, check and release cluster stacks", Args: cobra.NoArgs}
	cmd.AddCommand(stackCharts(), stackBump(), stackValidate(), stackPack(), stackCreate(), stackPublish(), stackList(),
		stackDiff(), stackRender(), stackManifests())
	return cmd
}

// ofStacks runs a command for each stack of the folders that are named.
func ofStacks(folders []string, run func(folder string) error) error {
	var problems []error
	for _, folder := range folders {
		found, err := source.Find(folder)
		problems = append(problems, err)
		for _, each := range found {
			problems = append(problems, run(each))
		}
	}
	return errors.Join(problems...)
}

func stackBump() *cobra.Command {
	var write, check bool
	cmd := &cobra.Command{
		Use:   "bump FOLDER...",
		Short: "Print the versions that the content of stacks requires",
		Long: "Print each component's version, the one that its content requires and what has changed since the last\n" +
			"release. FOLDER is a stack's, or one with providers/ in it. Exits with 3 where no version has to change.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, folders []string) error {
			bumped := false
			err := ofStacks(folders, func(folder string) error {
				is, err := bumpStack(cmd.OutOrStdout(), folder, write, check)
				bumped = bumped || is
				return err
			})
			if err == nil && !bumped && !check {
				err = exitError{errors.New("nothing to bump"), nothingToBump}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write the versions into metadata.yaml")
	cmd.Flags().BoolVar(&check, "check", false, "print nothing, and fail where metadata.yaml has other versions")
	cmd.MarkFlagsMutuallyExclusive("write", "check")
	return cmd
}

func stackValidate() *cobra.Command {
	var ofRelease bool
	cmd := &cobra.Command{
		Use:   "validate FOLDER...",
		Short: "Check stacks by the rules of csctl, of the cluster-stack operator, and of upgrades that work",
		Long: "Print each problem with its file, its key and what is allowed. FOLDER is a stack's, or one with providers/\n" +
			"in it; with --release it is that of a release, whose name is the tag.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, folders []string) error {
			check, each := validate.Folder, ofStacks
			if ofRelease {
				check, each = validateRelease, ofReleases
			}
			return each(folders, func(folder string) error {
				problems := check(folder)
				if len(problems) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), folder+": valid")
				}
				return errors.Join(problems...)
			})
		},
	}
	cmd.Flags().BoolVar(&ofRelease, "release", false, "check releases instead of stacks")
	return cmd
}

func ofReleases(folders []string, run func(folder string) error) error {
	var problems []error
	for _, folder := range folders {
		problems = append(problems, run(folder))
	}
	return errors.Join(problems...)
}

func validateRelease(folder string) []error {
	tag, all, err := readRelease(folder)
	if err != nil {
		return []error{err}
	}
	problems := release.Check(tag, all)
	for i, problem := range problems {
		problems[i] = fmt.Errorf("%s%c%w", folder, filepath.Separator, problem)
	}
	return problems
}

// bumpStack reports whether metadata.yaml has or had other versions than the content requires.
func bumpStack(out io.Writer, folder string, write, check bool) (bool, error) {
	s, err := source.Open(folder)
	if err != nil {
		return false, err
	}
	want, rows, err := s.Next()
	if err != nil {
		return false, err
	}
	differs := want != s.Metadata.Versions
	if check {
		if differs {
			return true, fmt.Errorf("%s has other versions than its content requires: %s; run stratos stack bump --write %s",
				filepath.Join(folder, format.MetadataFile), differences(want, s.Metadata.Versions, rows), folder)
		}
		return false, nil
	}
	if err := printBump(out, folder, want, s.Metadata.Versions, rows); err != nil || !differs || !write {
		return differs, err
	}
	return true, os.WriteFile(filepath.Join(folder, format.MetadataFile), want.Text(), 0o644)
}

func differences(want, now format.Versions, rows []bump.Row) string {
	var all []string
	if want.Kubernetes != now.Kubernetes {
		all = append(all, fmt.Sprintf("kubernetes %s instead of %s", want.Kubernetes, now.Kubernetes))
	}
	for _, r := range rows {
		if r.Now == r.Want {
			continue
		}
		text := fmt.Sprintf("%s %s instead of %s", r.Component, r.Want, r.Now)
		if len(r.Changed) > 0 {
			text += " (changed: " + strings.Join(r.Changed, ", ") + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func printBump(out io.Writer, folder string, want, now format.Versions, rows []bump.Row) error {
	kubernetes := bump.Row{Component: "kubernetes", Now: now.Kubernetes, Want: want.Kubernetes}
	rows = slices.Insert(slices.Clone(rows), 1, kubernetes)
	fmt.Fprintln(out, folder)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tVERSION\tREQUIRED\tCHANGED")
	for _, r := range rows {
		changed := strings.Join(r.Changed, ", ")
		if changed == "" {
			changed = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Component, r.Now, r.Want, changed)
	}
	return w.Flush()
}
