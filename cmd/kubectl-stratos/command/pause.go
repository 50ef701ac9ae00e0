package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func (s *shared) pause() *cobra.Command {
	return s.annotatePools(&cobra.Command{
		Use:   "pause NAME... | --all",
		Short: "Have nothing new begin in pools: no start, launch, drain or termination",
	}, `"true"`, "paused")
}

func (s *shared) resume() *cobra.Command {
	return s.annotatePools(&cobra.Command{
		Use:   "resume NAME... | --all",
		Short: "End the pause of pools",
	}, "null", "resumed")
}

// annotatePools has the command write the JSON value to the annotation that pauses pools.
func (s *shared) annotatePools(cmd *cobra.Command, value, done string) *cobra.Command {
	var all bool
	cmd.ValidArgsFunction = s.completeNames(poolList, false)
	cmd.Flags().BoolVar(&all, "all", false, "all pools of the cluster")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if all == (len(names) > 0) {
			return fmt.Errorf("name the pools, or give --all")
		}
		c, err := s.client()
		if err != nil {
			return err
		}
		pools, err := readPools(cmd.Context(), c, names, "")
		if err != nil {
			return s.explain(err)
		}
		patch := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationPaused+`":`+value+`}}}`))
		for i := range pools {
			if err := c.Patch(cmd.Context(), &pools[i], patch, client.FieldOwner("kubectl-stratos")); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "nodepool.stratos.sh/%s %s\n", pools[i].Name, done)
		}
		return nil
	}
	return cmd
}
