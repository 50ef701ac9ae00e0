// Package subcommand holds the commands of stratos other than the main one.
package subcommand

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/stratos-sh/stratos/cmd/stratos/cloud"
	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/minors"
	"github.com/stratos-sh/stratos/provider/fake"
)

// All returns the subcommands.
func All() []*cobra.Command {
	return []*cobra.Command{schedulerConfig(), printCRDs(), fakeCloud(), debug(), renderCommand(), uninstallGuard(),
		checkInstallation(), stack()}
}

func printCRDs() *cobra.Command {
	return &cobra.Command{
		Use:   "crds",
		Short: "Print the CustomResourceDefinitions, for kubectl apply --server-side -f -",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(crds.YAML())
			return err
		},
	}
}

func schedulerConfig() *cobra.Command {
	o := extender.SchedulerConfigOptions{}
	var wiring string
	cmd := &cobra.Command{
		Use:   "scheduler-config",
		Short: "Print the KubeSchedulerConfiguration with which a kube-scheduler calls the extender",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			o.Wiring = extender.Wiring(wiring)
			text, err := extender.SchedulerConfig(o)
			if err != nil {
				return err
			}
			if warning := extender.Untested(o.KubernetesMinor); warning != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&wiring, "wiring", string(extender.WiringDedicated),
		"how the scheduler reaches Stratos: dedicated or control-plane")
	fs.StringVar(&o.KubernetesMinor, "kubernetes-version", "",
		"the cluster's minor version, one of "+strings.Join(minors.Supported(), ", ")+", or the next one (required)")
	fs.StringVar(&o.SchedulerName, "scheduler-name", "", "what pods name in spec.schedulerName; default stratos-scheduler")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "let replicas take turns on a lease of their own")
	fs.StringVar(&o.LeaseNamespace, "lease-namespace", "stratos-system", "namespace of the lease")
	fs.StringVar(&o.LeaseName, "lease-name", "stratos-scheduler",
		"name of the lease; never that of the cluster's own scheduler")
	fs.StringVar(&o.Kubeconfig, "scheduler-kubeconfig", "",
		"kubeconfig path in the scheduler's file system; default: its service account")
	fs.StringVar(&o.ExtenderURL, "extender-url", "",
		"the extender's URL; default for dedicated: "+extender.DefaultExtenderURL)
	fs.StringVar(&o.TLS.CAFile, "extender-ca-file", "",
		"CA of the extender's certificate, a path in the scheduler's file system")
	fs.StringVar(&o.TLS.CertFile, "extender-cert-file", "", "the scheduler's client certificate")
	fs.StringVar(&o.TLS.KeyFile, "extender-key-file", "", "the key of the scheduler's client certificate")
	fs.StringVar(&o.TLS.ServerName, "extender-server-name", "", "the name in the extender's certificate")
	return cmd
}

func fakeCloud() *cobra.Command {
	var f options.Fake
	var listen, kubeconfig string
	z := &zap.Options{}
	cmd := &cobra.Command{
		Use:   "fake-cloud",
		Short: "Run a fake cloud and its machines as a process of their own, for stratos --fake-endpoint",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctrl.SetLogger(zap.New(zap.UseFlagOptions(z)))
			if err := options.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			config, err := options.RESTConfig(kubeconfig)
			if err != nil {
				return err
			}
			server, machines, err := cloud.InProcess(&f, config)
			if err != nil {
				return err
			}
			err = fake.Serve(cmd.Context(), listen, server, machines, func(at net.Addr) {
				fmt.Fprintln(cmd.OutOrStdout(), "listening on http://"+at.String())
			})
			if errors.Is(err, cmd.Context().Err()) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9555",
		"address of the API; loopback, because it asks no client for its identity")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster that the machines join")
	f.AddFlags(cmd.Flags())
	gofs := flag.NewFlagSet("zap", flag.ContinueOnError)
	z.BindFlags(gofs)
	cmd.Flags().AddGoFlagSet(gofs)
	return cmd
}
