// Package options holds the command line of stratos: flags, each of which can also be given as an
// environment variable.
package options

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/provider/fake"
)

// envPrefix starts the environment variable of a flag: --cluster-name is STRATOS_CLUSTER_NAME.
const envPrefix = "STRATOS_"

// serviceAddress is what the kubelet writes into NAME_PORT for each Service.
var serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// Options are all settings of a Stratos process.
type Options struct {
	ClusterName   string
	CloudProvider string
	Kubeconfig    string
	Namespace     string

	MetricsBindAddress  string
	ProbeBindAddress    string
	WebhookPort         int
	ExtenderBindAddress string
	CertDir             string
	ClientCA            string
	SchedulerNames      []string
	Nominate            bool
	LeaderElect         bool
	InstallCRDs         bool
	PprofBindAddress    string

	// RequiredDaemonSetNamespaces are the namespaces without the images of whose DaemonSets no node is
	// standby.
	RequiredDaemonSetNamespaces []string
	// BootstrapTokenKeyFile has the key of the bootstrap tokens of Kubeadm classes; empty for none.
	BootstrapTokenKeyFile string
	// PricesFile has what instances cost; empty for none.
	PricesFile string

	RateLimits RateLimits
	Fake       Fake
	Zap        zap.Options
}

// Fake are the settings of the fake cloud.
type Fake struct {
	Endpoint      string
	InstanceTypes string
	BootTime      time.Duration
	StopTime      time.Duration
	PullTime      time.Duration
	Capacity      string
}

// AddFlags registers the flags of the main command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ClusterName, "cluster-name", "",
		"name of this cluster; separates its instances from those of other clusters (required)")
	fs.StringVar(&o.CloudProvider, "cloud-provider", "", "cloud to keep pools in: aws, fake or kind (required)")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"kubeconfig file; default: in-cluster, else KUBECONFIG, else ~/.kube/config")
	fs.StringVar(&o.Namespace, "namespace", "stratos-system", "namespace of Stratos's own objects, such as its lease")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 turns it off")
	fs.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", ":8081",
		"address of /healthz and /readyz; 0 turns them off")
	fs.IntVar(&o.WebhookPort, "webhook-port", 9443,
		"port of the admission webhooks, which are served only with --cert-dir")
	fs.StringVar(&o.ExtenderBindAddress, "extender-bind-address", "127.0.0.1:9444",
		"address of /filter, /prioritize and /preempt; loopback only without --cert-dir")
	fs.StringVar(
		&o.CertDir,
		"cert-dir",
		"",
		"folder with tls.crt and tls.key for webhooks and extender; without it the extender is plain HTTP and admission is not served",
	)
	fs.StringVar(&o.ClientCA, "client-ca", "",
		"file with the CA certificates whose clients the extender accepts; needs --cert-dir")
	fs.StringSliceVar(&o.SchedulerNames, "extender-scheduler-names", []string{v1alpha1.SchedulerName},
		"schedulers that call the extender")
	fs.BoolVar(&o.Nominate, "nominate", true,
		"nominate pods of other schedulers to the nodes that are started for them (status.nominatedNodeName)")
	fs.StringSliceVar(&o.RequiredDaemonSetNamespaces, "required-daemonset-namespaces", nil,
		"namespaces without the images of whose DaemonSets no node is standby, such as kube-system; "+
			"images of other DaemonSets are best effort")
	fs.StringVar(&o.BootstrapTokenKeyFile, "bootstrap-token-key-file", "",
		"file with the key (32 bytes or more) of the bootstrap tokens by which instances of Kubeadm classes join; "+
			"without it there are none")
	fs.StringVar(&o.PricesFile, "prices-file", "",
		"YAML file with what instances cost (currency; instances: price per hour by type; volumes: price per GiB and "+
			"month by type), for status.price of node classes; without it there are none")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "let replicas agree on one that runs the scaler")
	fs.BoolVar(&o.InstallCRDs, "install-crds", false, "apply the CRDs at start; default true with --cloud-provider=fake")
	fs.StringVar(&o.PprofBindAddress, "pprof", "", "address of the profiler; off by default")
	fs.StringVar(&o.Fake.Endpoint, "fake-endpoint", "",
		"URL of a fake cloud in a process of its own (stratos fake-cloud); default: in this process")
	o.Fake.AddFlags(fs)
	o.RateLimits.AddFlags(fs)
	gofs := flag.NewFlagSet("zap", flag.ContinueOnError)
	o.Zap.BindFlags(gofs)
	fs.AddGoFlagSet(gofs)
}

// AddFlags registers the flags that say what a fake cloud is like.
func (f *Fake) AddFlags(fs *pflag.FlagSet) {
	times := fake.DefaultTimes()
	fs.StringVar(&f.InstanceTypes, "fake-instance-types", "",
		"instance types beside the built-in ones, as name=cpu:4,memory:16Gi,pods:110;...")
	fs.DurationVar(&f.BootTime, "fake-boot-time", times.Boot, "time from a start to the kubelet's Ready")
	fs.DurationVar(&f.StopTime, "fake-stop-time", times.Stop, "time from a stop to stopped")
	fs.DurationVar(&f.PullTime, "fake-pull-time", times.Pull, "time to pull an image")
	fs.StringVar(&f.Capacity, "fake-capacity", "", "instances that a zone has room for, as zone/type=count;... (* is any)")
}

// Cloud translates the settings for provider/fake. Errors name the flag.
func (f *Fake) Cloud() (fake.Options, error) {
	o := fake.Options{Times: fake.Times{Boot: orNone(f.BootTime), Stop: orNone(f.StopTime), Pull: orNone(f.PullTime)}}
	var err error
	if o.Types, err = fake.ParseTypes(f.InstanceTypes); err != nil {
		return o, fmt.Errorf("--fake-instance-types: %w", err)
	}
	if o.Capacity, err = fake.ParseCapacity(f.Capacity); err != nil {
		return o, fmt.Errorf("--fake-capacity: %w", err)
	}
	return o, nil
}

// ExtenderCertDir is the folder of the extender's certificate: none for the scheduler of the same
// pod, which comes over loopback in plain HTTP also where admission has a certificate.
func (o *Options) ExtenderCertDir() string {
	if extender.IsLoopback(o.ExtenderBindAddress) && o.ClientCA == "" {
		return ""
	}
	return o.CertDir
}

// orNone: on the command line 0 means no time at all, which fake.Times writes as a negative one.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// FromEnv sets the flags that the command line left alone from their environment variables. Errors
// name the variable. An address such as tcp://10.96.0.7:443 is the kubelet's: a Service named
// stratos-webhook has it set STRATOS_WEBHOOK_PORT.
func FromEnv(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		key := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(key)
		if !ok || f.Changed || serviceAddress.MatchString(value) {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	})
	return errors.Join(errs...)
}

// Complete fills in what follows from other settings.
func (o *Options) Complete(fs *pflag.FlagSet) {
	if !fs.Changed("install-crds") && o.CloudProvider == v1alpha1.CloudFake {
		o.InstallCRDs = true
	}
	if o.Kubeconfig == "" {
		o.Kubeconfig = os.Getenv("KUBECONFIG")
	}
}

// Validate checks the settings. All errors are reported at once, each naming its flag and what is
// allowed.
func (o *Options) Validate() error {
	var errs []error
	if o.ClusterName == "" {
		errs = append(
			errs,
			errors.New("--cluster-name is required: it separates this cluster's instances from those of others"),
		)
	}
	switch clouds := []string{v1alpha1.CloudAWS, v1alpha1.CloudFake, v1alpha1.CloudKind}; {
	case o.CloudProvider == "":
		errs = append(errs, fmt.Errorf("--cloud-provider is required; it is one of: %s", strings.Join(clouds, ", ")))
	case !slices.Contains(clouds, o.CloudProvider):
		errs = append(errs, fmt.Errorf("--cloud-provider %q is not supported; it is one of: %s", o.CloudProvider,
			strings.Join(clouds, ", ")))
	}
	exposure := extender.Options{BindAddress: o.ExtenderBindAddress, CertDir: o.CertDir, ClientCA: o.ClientCA}
	if err := exposure.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.WebhookPort < 1 || o.WebhookPort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port %d must be 1 to 65535", o.WebhookPort))
	}
	if len(o.SchedulerNames) == 0 || slices.Contains(o.SchedulerNames, "") {
		errs = append(errs, errors.New("--extender-scheduler-names must name at least one scheduler and no empty one"))
	}
	for _, namespace := range o.RequiredDaemonSetNamespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("--required-daemonset-namespaces: %q is no namespace: %s",
				namespace, strings.Join(wrong, ", ")))
		}
	}
	if _, err := o.RateLimits.Limits(o.CloudProvider); err != nil {
		errs = append(errs, err)
	}
	if o.Fake.BootTime < 0 || o.Fake.StopTime < 0 || o.Fake.PullTime < 0 {
		errs = append(errs, errors.New("--fake-boot-time, --fake-stop-time and --fake-pull-time must not be negative"))
	}
	return errors.Join(errs...)
}
