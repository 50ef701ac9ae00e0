package subcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// helmRelease is the release that is about to be uninstalled.
type helmRelease struct {
	name, namespace string
	revision        int
}

func uninstallGuard() *cobra.Command {
	var kubeconfig string
	var r helmRelease
	cmd := &cobra.Command{
		Use:   "uninstall-guard",
		Short: "Fail while there are pools, and say what they would go on costing; for the chart's pre-delete hook",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(kubeconfig)
			if err != nil {
				return err
			}
			return guardUninstall(cmd.Context(), c, cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	cmd.Flags().StringVar(&r.name, "release", "stratos", "name of the Helm release")
	cmd.Flags().StringVar(&r.namespace, "namespace", "stratos-system", "namespace of the Helm release")
	cmd.Flags().IntVar(&r.revision, "revision", 1, "deployed revision of the Helm release")
	return cmd
}

var errPoolsExist = errors.New("there are pools; see above")

// guardUninstall is an error while there are pools. Where their definition is gone they are too.
func guardUninstall(ctx context.Context, c client.Reader, out io.Writer, r helmRelease) error {
	pools := &v1alpha1.NodePoolList{}
	if err := c.List(ctx, pools); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("list the pools: %w", err)
	}
	if len(pools.Items) == 0 {
		return nil
	}
	classes := &v1alpha1.AWSNodeClassList{}
	if err := c.List(ctx, classes); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list the node classes: %w", err)
	}
	fmt.Fprintln(out, "Without Stratos nothing stops or terminates these instances, and they go on costing:")
	fmt.Fprintln(out)
	printPools(out, pools.Items, gibPerInstance(classes.Items))
	fmt.Fprintf(out, `
Delete the pools first, and wait: kubectl delete nodepools --all --wait
Or leave the instances as they are: helm uninstall %[1]s --namespace %[2]s --no-hooks
Or keep Stratos. Helm refuses to upgrade a release whose uninstallation has begun, until:
helm rollback %[1]s %[3]d --namespace %[2]s
`, r.name, r.namespace, r.revision)
	return errPoolsExist
}

func printPools(out io.Writer, pools []v1alpha1.NodePool, gib map[string]int64) {
	slices.SortFunc(pools, func(a, b v1alpha1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	table := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "POOL\tINSTANCES\tSTOPPED\tVOLUMES")
	for i := range pools {
		p := &pools[i]
		volumes := "unknown"
		if each := gib[p.Spec.Template.NodeClassRef.Name]; each > 0 &&
			p.Spec.Template.NodeClassRef.Kind == v1alpha1.KindAWSNodeClass {
			volumes = fmt.Sprintf("%d GiB or more", each*int64(p.Status.Total))
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", p.Name, p.Status.Total, p.Status.Standby, volumes)
	}
	table.Flush()
}

// gibPerInstance is what an instance of each class has at least: the volumes that the class sizes,
// or the one with images and pods, which the cloud was asked about. The image may have more.
func gibPerInstance(classes []v1alpha1.AWSNodeClass) map[string]int64 {
	const gibi = 1 << 30
	out := map[string]int64{}
	for i := range classes {
		var sized int64
		for _, m := range classes[i].Spec.BlockDeviceMappings {
			if m.VolumeSize != nil {
				sized += int64(*m.VolumeSize)
			}
		}
		out[classes[i].Name] = max(sized, classes[i].Status.Capacity.StorageEphemeral().Value()/gibi)
	}
	return out
}
