package subcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func debug() *cobra.Command {
	cmd := &cobra.Command{Use: "debug", Short: "Look into what Stratos does", Args: cobra.NoArgs}
	cmd.AddCommand(debugClaims())
	return cmd
}

func debugClaims() *cobra.Command {
	var kubeconfig, namespace string
	cmd := &cobra.Command{
		Use:   "claims [pod]",
		Short: "Show the claimed node of each pending pod, or why it has none, as kubectl stratos why does",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(kubeconfig)
			if err != nil {
				return err
			}
			q := why.Query{Namespace: namespace}
			if len(args) > 0 {
				q.Pod, q.Namespace = args[0], cmp.Or(namespace, metav1.NamespaceDefault)
			}
			return explainClaims(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr(), q)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "",
		"namespace of the pods; default: all, and for a pod that is named "+metav1.NamespaceDefault)
	return cmd
}

const kubeconfigUsage = "kubeconfig file; default: KUBECONFIG, else ~/.kube/config"

func newClient(kubeconfig string) (client.Client, error) {
	config, err := options.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// explainClaims prints what is known of the named pod, or a line for each pending pod.
func explainClaims(ctx context.Context, c client.Reader, out, errs io.Writer, q why.Query) error {
	facts, err := why.Gather(ctx, c, q)
	if err != nil {
		return err
	}
	defer facts.PrintMissing(errs)
	now := time.Now()
	all := facts.Explain(now)
	if q.Pod != "" {
		return all[0].Describe(out, now)
	}
	return printTable(out, why.Table(all, now, q.Namespace == ""))
}

// printTable prints the columns that are not for a wide output. The printer of kubectl's library
// stays out of the image of the controller.
func printTable(out io.Writer, table *metav1.Table) error {
	lines := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			fmt.Fprintf(lines, "%s\t", strings.ToUpper(column.Name))
		}
	}
	fmt.Fprintln(lines)
	for _, row := range table.Rows {
		for i, cell := range row.Cells {
			if table.ColumnDefinitions[i].Priority == 0 {
				fmt.Fprintf(lines, "%v\t", cell)
			}
		}
		fmt.Fprintln(lines)
	}
	return lines.Flush()
}
