package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// output is the flag -o with --no-headers and, where a command has it, --watch.
type output struct {
	format    string
	noHeaders bool
	watch     bool
}

// wide is the table with all its columns.
const wide = "wide"

func (o *output) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output format: wide, json, yaml or name; default: a table")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave out the names of the columns")
}

// validate reports a format that is not known, or not one to watch.
func (o *output) validate() error {
	switch {
	case !slices.Contains([]string{"", wide, "json", "yaml", "name"}, o.format):
		return fmt.Errorf("--output: %q is not one of wide, json, yaml and name", o.format)
	case o.watch && !o.isTable():
		return fmt.Errorf("--watch prints rows of a table: --output may be wide, not %s", o.format)
	}
	return nil
}

// isTable reports whether a table was asked for.
func (o *output) isTable() bool { return o.format == "" || o.format == wide }

// newTable is a table without rows. The second columns are those for a wide output.
func newTable(columns []string, more ...string) *metav1.Table {
	table := &metav1.Table{}
	for priority, names := range [][]string{columns, more} {
		for _, name := range names {
			table.ColumnDefinitions = append(table.ColumnDefinitions,
				metav1.TableColumnDefinition{Name: name, Type: "string", Priority: int32(priority)})
		}
	}
	return table
}

// printTable prints it with or without the columns for a wide output.
func (o *output) printTable(s *shared, table *metav1.Table) error {
	printer := printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == wide, NoHeaders: o.noHeaders})
	return printer.PrintObj(table, s.Out)
}

// printObjects prints objects of the kind in the chosen format: several as a list, as kubectl does.
func (o *output) printObjects(s *shared, kind schema.GroupVersionKind, objects []runtime.Object, single bool) error {
	flags := genericclioptions.NewPrintFlags("")
	flags.OutputFormat = &o.format
	printer, err := flags.ToPrinter()
	if err != nil {
		return err
	}
	list := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, object := range objects {
		object.GetObjectKind().SetGroupVersionKind(kind)
		if accessor, err := meta.Accessor(object); err == nil {
			accessor.SetManagedFields(nil)
		}
		if single || o.format == "name" {
			if err := printer.PrintObj(object, s.Out); err != nil {
				return err
			}
			continue
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	if single || o.format == "name" {
		return nil
	}
	return printer.PrintObj(list, s.Out)
}

// printAs prints anything as JSON or YAML.
func (s *shared) printAs(format string, all any) error {
	text, err := json.MarshalIndent(all, "", "    ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, strings.TrimSpace(string(text)))
	return err
}
