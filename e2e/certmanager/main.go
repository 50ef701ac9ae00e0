// Command certmanager is the part of cert-manager that Stratos's certificates need, in one process:
// its own controllers for certificates, their requests and the issuers of kind CA and SelfSigned,
// the approver of requests, and the CA injector.
//
// cert-manager's programs cannot be built from modules: they lie in other modules of its
// repository, which the main module does not contain and no proxy serves. The controllers, though,
// are public packages of the main module, and this command starts them as the programs do. It is
// made for tests: no metrics, no admission webhook, none of the other issuers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// options are the command line.
type options struct {
	kubeconfig       string
	namespace        string
	leaderElect      bool
	probeBindAddress string
}

func (o *options) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; default: in-cluster")
	fs.StringVar(&o.namespace, "namespace", "cert-manager",
		"namespace of the lease and of the Secrets that ClusterIssuers name")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "let replicas agree on one that works")
	fs.StringVar(&o.probeBindAddress, "health-probe-bind-address", ":8081",
		"address of /healthz and /readyz; 0 turns them off")
}

func main() {
	o := &options{}
	// A set of its own: controller-runtime puts a --kubeconfig into the program's.
	flags := flag.NewFlagSet("certmanager", flag.ExitOnError)
	o.addFlags(flags)
	klog.InitFlags(flags)
	_ = flags.Parse(os.Args[1:]) // it exits on an error
	if err := run(ctrl.SetupSignalHandler(), o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// run starts the CA injector and the controllers under one controller-runtime manager, which brings
// the lease and the probes.
func run(ctx context.Context, o *options) error {
	ctrl.SetLogger(klog.Background())
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping",
		healthz.Ping)); err != nil {
		return err
	}
	if err := cainjector.RegisterAllInjectors(ctx, mgr, injection()); err != nil {
		return fmt.Errorf("set up the CA injector: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return runControllers(ctx,
			o)
	})); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o *options) (manager.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig) // in-cluster when empty
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), certmanagerv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme), apiregistrationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        o.probeBindAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "cert-manager",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		// The injector watches only the metadata of Secrets; read through the cache, each would be
		// watched a second time in full.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
}

// injection is what cert-manager's own CA injector does unless told otherwise.
func injection() cainjector.SetupOptions {
	return cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName:                     true,
			cainjector.CustomResourceDefinitionName:       true,
		},
	}
}
