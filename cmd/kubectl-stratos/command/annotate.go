package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// The values that are written to annotations, as JSON.
const (
	set    = `"true"`
	remove = "null"
)

func (s *shared) pause() *cobra.Command {
	return s.annotatePools(&cobra.Command{
		Use:   "pause NAME... | --all",
		Short: "Have nothing new begin in pools: no start, launch, drain or termination",
	}, set, "paused")
}

func (s *shared) resume() *cobra.Command {
	return s.annotatePools(&cobra.Command{
		Use:   "resume NAME... | --all",
		Short: "End the pause of pools",
	}, remove, "resumed")
}

// annotatePools has the command write the value to the annotation that pauses pools.
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
		for i := range pools {
			if err := annotate(cmd.Context(), c, &pools[i], v1alpha1.AnnotationPaused, value); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "nodepool.stratos.sh/%s %s\n", pools[i].Name, done)
		}
		return nil
	}
	return cmd
}

func (s *shared) replace() *cobra.Command {
	var cancel bool
	cmd := &cobra.Command{
		Use:   "replace NODE...",
		Short: "Have nodes drained, terminated and replaced, whatever their pools say about drift",
		Long: `Have nodes drained, terminated and replaced, whatever their pools say about drift.

Stratos takes the nodes within disruption.budget of their pools, by evictions that PodDisruptionBudgets
may refuse, and not while a node or a pod on it is annotated not to be disrupted.`,
		Example: `  # replace a node
  kubectl stratos replace ip-10-0-12-7.ec2.internal
  # cancel that; a drain that has begun goes on
  kubectl stratos replace ip-10-0-12-7.ec2.internal --cancel`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			nodes, err := readNodes(cmd.Context(), c, names, "", "")
			if err != nil {
				return err
			}
			value, done := set, "is to be replaced"
			if cancel {
				value, done = remove, "is not to be replaced"
			}
			for i := range nodes {
				if err := annotate(cmd.Context(), c, &nodes[i], v1alpha1.AnnotationReplace, value); err != nil {
					return err
				}
				fmt.Fprintf(s.Out, "node/%s %s\n", nodes[i].Name, done)
			}
			return nil
		},
		ValidArgsFunction: s.completeNames(metadataOf("Node"), false, client.HasLabels{v1alpha1.LabelPool}),
	}
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel the request; a drain that has begun goes on")
	return cmd
}

// annotate writes the value, JSON, to the annotation of the object.
func annotate(ctx context.Context, c client.Writer, o client.Object, key, value string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":`+value+`}}}`))
	return c.Patch(ctx, o, patch, client.FieldOwner("kubectl-stratos"))
}
