package subcommand

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
			return guardUninstall(cmd.Context(), c, r)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	cmd.Flags().StringVar(&r.name, "release", "stratos", "name of the Helm release")
	cmd.Flags().StringVar(&r.namespace, "namespace", "stratos-system", "namespace of the Helm release")
	cmd.Flags().IntVar(&r.revision, "revision", 1, "deployed revision of the Helm release")
	return cmd
}

// guardUninstall is an error while there are pools, which says all that the user is to know. Where
// their definition is gone they are too.
func guardUninstall(ctx context.Context, c client.Reader, r helmRelease) error {
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
	return fmt.Errorf(`there are pools, and without Stratos nothing stops or terminates their instances, which go on costing:
%[4]s
To delete them first: kubectl delete nodepools --all --wait
To leave them as they are: helm uninstall %[1]s --namespace %[2]s --no-hooks
To keep Stratos (Helm upgrades no release whose uninstallation has begun): helm rollback %[1]s %[3]d --namespace %[2]s`,
		r.name, r.namespace, r.revision, describePools(pools.Items, gibPerInstance(classes.Items)))
}

// describePools has a line for each pool. Helm 4 prints them all in one line, so there is no table.
func describePools(pools []v1alpha1.NodePool, gib map[string]int64) string {
	slices.SortFunc(pools, func(a, b v1alpha1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	var lines []string
	for i := range pools {
		p := &pools[i]
		line := fmt.Sprintf("pool %s: %d instances, %d of them stopped", p.Name, p.Status.Total, p.Status.Standby)
		class := p.Spec.Template.NodeClassRef
		if each := gib[class.Name]; each > 0 && class.Kind == v1alpha1.KindAWSNodeClass {
			line += fmt.Sprintf(", %d GiB of volumes or more", each*int64(p.Status.Total))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
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
