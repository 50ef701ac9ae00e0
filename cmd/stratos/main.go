// Command stratos keeps pools of stopped cloud instances and starts them when pods need nodes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/cmd/stratos/cloud"
	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/cmd/stratos/subcommand"
	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler"
	"github.com/stratos-sh/stratos/webhook"
)

// version is set by the linker (make build).
var version = "dev"

func main() {
	o := &options.Options{}
	command := &cobra.Command{
		Use:           "stratos",
		Short:         "Stratos keeps pools of stopped cloud instances and starts them when pods need nodes.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			o.Complete(cmd.Flags())
			if err := o.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.AddFlags(command.Flags())
	command.AddCommand(subcommand.All()...)
	command = subcommand.Named(os.Args[0], command)
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "stratos:", err)
		os.Exit(subcommand.ExitCode(err))
	}
}

// run wires the parts: options, provider, manager, the parts' own set-up, start.
func run(ctx context.Context, o *options.Options) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.Zap)))
	// Nine tenths of the container's limit, unless GOMEMLIMIT is set: the kernel counts more memory
	// than the Go runtime does, and would end the process first.
	if _, err := memlimit.Set(); err != nil {
		ctrl.Log.Info("the Go runtime has no memory limit", "reason", err.Error())
	}
	config, err := options.RESTConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if o.InstallCRDs {
		if err := installCRDs(ctx, config, scheme); err != nil {
			return err
		}
	}
	chosen, err := cloud.New(ctx, o, config, metrics.Registry)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, o.Manager(scheme))
	if err != nil {
		return err
	}
	mgr = options.PacedEvents(mgr)
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if chosen.Beside != nil {
		if err := mgr.Add(chosen.Beside); err != nil {
			return err
		}
	}
	if err := setUpParts(ctx, mgr, o, chosen); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// installCRDs writes the CRDs with a client of its own: there is no manager yet.
func installCRDs(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) error {
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return crds.Install(ctx, direct)
}

// setUpParts sets up admission, the cluster state, the scaler and the extender.
func setUpParts(ctx context.Context, mgr ctrl.Manager, o *options.Options, chosen *cloud.Cloud) error {
	if o.CertDir != "" {
		if err := webhook.SetupWithManager(mgr, webhook.Setup{CertDir: o.CertDir, Namespace: o.Namespace,
			SchedulerName: o.SchedulerNames[0], NodeClasses: chosen.Kinds()}); err != nil {
			return err
		}
	}
	seen := cluster.New(decide.NewClaims(), time.Now)
	if err := seen.SetupWithManager(mgr, nil); err != nil {
		return err
	}
	starter, err := scaler.SetupWithManager(ctx, mgr, scaler.Setup{
		Cloud: chosen.Provider, Classes: chosen.Classes,
		Cluster: o.ClusterName, Namespace: o.Namespace, State: seen, ExtenderSchedulers: o.SchedulerNames,
		Nominate:                    o.Nominate,
		RequiredDaemonSetNamespaces: o.RequiredDaemonSetNamespaces, BootstrapTokenKeyFile: o.BootstrapTokenKeyFile,
	})
	if err != nil {
		return err
	}
	_, err = extender.SetupWithManager(mgr, extender.Setup{
		State: seen, Starter: starter,
		Server: extender.Options{
			BindAddress: o.ExtenderBindAddress, CertDir: o.ExtenderCertDir(), ClientCA: o.ClientCA,
			Log: ctrl.Log.WithName("extender"),
		},
	})
	return err
}
