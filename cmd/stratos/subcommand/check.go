package subcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/check"
	"github.com/stratos-sh/stratos/cmd/stratos/cloud"
	"github.com/stratos-sh/stratos/cmd/stratos/cloudcheck"
	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/aws"
)

// checkTime bounds a check: a cloud that does not answer is tried several times.
const checkTime = 2 * time.Minute

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// ExitCode is the exit code of an error of a command.
func ExitCode(err error) int {
	var own exitError
	if errors.As(err, &own) {
		return own.code
	}
	return 1
}

// misused is an error of the command line.
func misused(err error) error { return exitError{err, 2} }

// checkOptions are the flags of check. What is empty is read from Stratos's Deployment.
type checkOptions struct {
	kubeconfig, namespace, clusterName, cloudProvider string
}

func checkInstallation() *cobra.Command {
	o := checkOptions{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find out what is wrong with the installation, in the cluster and in the cloud",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return misused(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return misused(err)
			}
			config, err := options.RESTConfig(o.kubeconfig)
			if err != nil {
				return misused(err)
			}
			ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard))) // the lines say what is wrong
			ctx, cancel := context.WithTimeout(cmd.Context(), checkTime)
			defer cancel()
			results, err := o.results(ctx, config)
			if err != nil {
				return err
			}
			if err := check.Print(cmd.OutOrStdout(), results); err != nil {
				return err
			}
			if check.AnyWrong(results) {
				return errors.New("something is wrong")
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused(err) })
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", kubeconfigUsage)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "stratos-system", "namespace of Stratos")
	cmd.Flags().StringVar(&o.clusterName, "cluster-name", "", "name of the cluster; default: that of Stratos's Deployment")
	cmd.Flags().StringVar(&o.cloudProvider, "cloud-provider", "",
		"the cloud of the pools: aws, fake or kind; default: that of Stratos's Deployment")
	return cmd
}

func (o checkOptions) results(ctx context.Context, config *rest.Config) ([]check.Result, error) {
	c, err := newClient(o.kubeconfig)
	if err != nil {
		return nil, misused(err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, misused(err)
	}
	g := check.Gatherer{Client: c, Server: server, Namespace: o.namespace}
	facts := g.Gather(ctx)
	installed := &facts.Installation
	installed.ClusterName = cmp.Or(o.clusterName, installed.ClusterName)
	installed.CloudProvider = cmp.Or(o.cloudProvider, installed.CloudProvider)
	results := check.Cluster(&facts)
	if installed.CloudProvider != v1alpha1.CloudAWS {
		return append(results, cloudcheck.NoCloud(whyNoCloud(installed))), nil
	}
	if installed.ClusterName == "" {
		return append(results, cloudcheck.NoCloud("the name of the cluster is not known: set --cluster-name")), nil
	}
	chosen, err := cloud.New(ctx, &options.Options{ClusterName: installed.ClusterName, CloudProvider: v1alpha1.CloudAWS,
		RateLimits: options.RateLimits{Share: 1}}, config, prometheus.NewRegistry())
	if err != nil {
		return append(results, cloudcheck.NoCloud(err.Error())), nil
	}
	ec2, is := chosen.Provider.(*aws.Cloud)
	if !is {
		return nil, fmt.Errorf("the provider of %s is %T", v1alpha1.CloudAWS, chosen.Provider)
	}
	answers := cloudcheck.Gather(ctx, c, ec2.Checker(), &facts)
	return append(results, cloudcheck.Cloud(&answers)...), nil
}

func whyNoCloud(installed *check.Installation) string {
	if installed.CloudProvider == "" {
		return "the cloud is not known: set --cloud-provider"
	}
	return "the provider " + installed.CloudProvider + " has no permissions to check"
}
