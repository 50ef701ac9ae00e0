package command

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/check"
)

func (s *shared) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Find out what is wrong with the installation in the cluster",
		Long: `Find out what is wrong with the installation in the cluster.

These are the lines of "stratos check" about the cluster. Those about the cloud need the cloud
identity of Stratos: docs/check.md says how it is run in a pod of Stratos. Where that is not in the
namespace stratos-system, --namespace names it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			config, err := s.flags.ToRESTConfig()
			if err != nil {
				return err
			}
			server, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				return err
			}
			g := check.Gatherer{Client: c, Server: server, Namespace: cmp.Or(*s.flags.Namespace, "stratos-system")}
			facts := g.Gather(cmd.Context())
			results := check.Cluster(&facts)
			if err := check.Print(s.Out, results); err != nil {
				return err
			}
			if check.AnyWrong(results) {
				return errors.New("something is wrong")
			}
			return nil
		},
	}
}
