package command

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (s *shared) versions() *cobra.Command {
	var alone bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of Stratos in the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(s.Out, "kubectl-stratos "+s.version)
			if alone {
				return nil
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
			err = c.List(cmd.Context(), list, client.MatchingLabels{"app.kubernetes.io/name": "stratos"})
			switch {
			case apierrors.IsForbidden(err):
				fmt.Fprintln(s.ErrOut, "You may not list deployments.apps: the version in the cluster is left out.")
				return nil
			case err != nil:
				return err
			case len(list.Items) == 0:
				fmt.Fprintln(s.Out, "no Deployment of Stratos in the cluster")
			}
			for i := range list.Items {
				d := &list.Items[i]
				fmt.Fprintf(s.Out, "deployment %s/%s %s\n", d.Namespace, d.Name,
					cmp.Or(d.Labels["app.kubernetes.io/version"], "of an unknown version"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&alone, "client", false, "print the version of the plugin alone")
	return cmd
}
