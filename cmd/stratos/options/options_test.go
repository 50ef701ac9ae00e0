package options

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stratos-sh/stratos/provider/fake"
)

// parse reads a command line and an environment, as main does.
func parse(t *testing.T, environment map[string]string, args ...string) (*Options, error) {
	t.Helper()
	o := &Options{}
	fs := pflag.NewFlagSet("stratos", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := FromEnv(fs, func(key string) (string, bool) { v, ok := environment[key]; return v, ok }); err != nil {
		return o, err
	}
	o.Complete(fs)
	return o, nil
}

// valid is the command line of the seeds.
func valid(more ...string) []string {
	return append([]string{"--cluster-name=test", "--cloud-provider=fake"}, more...)
}

func TestDefaults(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	o, err := parse(t, nil, valid()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("the command line of the seeds is refused: %v", err)
	}
	times := fake.DefaultTimes()
	want := &Options{
		ClusterName: "test", CloudProvider: "fake", Namespace: "stratos-system",
		MetricsBindAddress: ":8080", ProbeBindAddress: ":8081", WebhookPort: 9443, ExtenderBindAddress: "127.0.0.1:9444",
		SchedulerNames: []string{"stratos-scheduler"}, Nominate: true, InstallCRDs: true,
		Fake: Fake{BootTime: times.Boot, StopTime: times.Stop, PullTime: times.Pull},
	}
	o.Zap, o.RateLimits = want.Zap, want.RateLimits // the latter have tests of their own
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestFromEnv(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		got         func(*Options) string
		want        string
	}{
		"a variable sets a flag": {map[string]string{"STRATOS_CLUSTER_NAME": "env"}, nil,
			func(o *Options) string { return o.ClusterName }, "env"},
		"the command line wins": {map[string]string{"STRATOS_CLUSTER_NAME": "env"}, []string{"--cluster-name=line"},
			func(o *Options) string { return o.ClusterName }, "line"},
		"an empty variable is a setting": {map[string]string{"STRATOS_NAMESPACE": ""}, nil,
			func(o *Options) string { return o.Namespace }, ""},
		"durations": {map[string]string{"STRATOS_FAKE_BOOT_TIME": "7s"}, nil,
			func(o *Options) string { return o.Fake.BootTime.String() }, "7s"},
		"lists": {map[string]string{"STRATOS_EXTENDER_SCHEDULER_NAMES": "a,b"}, nil,
			func(o *Options) string { return strings.Join(o.SchedulerNames, "+") }, "a+b"},
		"none, where lists say nothing": {nil, nil,
			func(o *Options) string { return strings.Join(o.RequiredDaemonSetNamespaces, "+") }, ""},
		"namespaces of DaemonSets": {map[string]string{"STRATOS_REQUIRED_DAEMONSET_NAMESPACES": "kube-system,cilium"}, nil,
			func(o *Options) string {
				return strings.Join(o.RequiredDaemonSetNamespaces, "+")
			}, "kube-system+cilium"},
		"the variable of a Service named stratos-webhook": {map[string]string{"STRATOS_WEBHOOK_PORT": "tcp://10.96.0.7:443"},
			nil, func(o *Options) string {
				return strconv.Itoa(o.WebhookPort)
			}, "9443"},
		"that of another protocol": {map[string]string{"STRATOS_WEBHOOK_PORT": "sctp://[fd00::7]:443"}, nil,
			func(o *Options) string {
				return strconv.Itoa(o.WebhookPort)
			}, "9443"},
		"a port of our own": {map[string]string{"STRATOS_WEBHOOK_PORT": "8443"}, nil, func(o *Options) string {
			return strconv.Itoa(o.WebhookPort)
		}, "8443"},
		"a URL": {map[string]string{"STRATOS_FAKE_ENDPOINT": "http://10.96.0.7:80"}, nil,
			func(o *Options) string { return o.Fake.Endpoint }, "http://10.96.0.7:80"},
		"a variable without our prefix": {map[string]string{"CLUSTER_NAME": "env"}, nil,
			func(o *Options) string { return o.ClusterName }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, c.environment, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.got(o); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestFromEnvNamesTheVariablesThatAreWrong(t *testing.T) {
	_, err := parse(t, map[string]string{"STRATOS_LEADER_ELECT": "perhaps", "STRATOS_FAKE_STOP_TIME": "soon"})
	for _, want := range []string{"STRATOS_LEADER_ELECT", "perhaps", "STRATOS_FAKE_STOP_TIME", "soon"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestInstallCRDs(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		want        bool
	}{
		"with the fake cloud, by itself":  {nil, valid(), true},
		"turned off on the command line":  {nil, valid("--install-crds=false"), false},
		"turned off by the environment":   {map[string]string{"STRATOS_INSTALL_CRDS": "false"}, valid(), false},
		"with another cloud":              {nil, []string{"--cloud-provider=aws"}, false},
		"with another cloud, if asked to": {nil, []string{"--cloud-provider=aws", "--install-crds"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, c.environment, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if o.InstallCRDs != c.want {
				t.Errorf("install CRDs %v, want %v", o.InstallCRDs, c.want)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/from/kubectl")
	for want, args := range map[string][]string{"/from/kubectl": valid(), "/line": valid("--kubeconfig=/line")} {
		o, err := parse(t, nil, args...)
		if err != nil || o.Kubeconfig != want {
			t.Errorf("kubeconfig %q, error %v; want %q", o.Kubeconfig, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string // none: valid
	}{
		"no cluster name": {[]string{"--cloud-provider=fake"}, []string{"--cluster-name is required"}},
		"no cloud":        {[]string{"--cluster-name=c"}, []string{"--cloud-provider is required", "fake"}},
		"a cloud that nobody has": {[]string{"--cluster-name=c", "--cloud-provider=gcp"},
			[]string{`--cloud-provider "gcp"`, "one of", "fake"}},
		"an address without a port": {valid("--extender-bind-address=127.0.0.1"),
			[]string{"--extender-bind-address", "host:port"}},
		"a CA without a certificate":  {valid("--client-ca=/ca"), []string{"--client-ca needs --cert-dir"}},
		"a webhook port that is none": {valid("--webhook-port=0"), []string{"--webhook-port 0 must be 1 to 65535"}},
		"a webhook port too large":    {valid("--webhook-port=65536"), []string{"--webhook-port 65536 must be 1 to 65535"}},
		"open to all": {valid("--cert-dir=/c", "--extender-bind-address=:9444"),
			[]string{"--extender-bind-address", "not loopback", "--client-ca is required"}},
		"open to all in plain HTTP": {valid("--extender-bind-address=0.0.0.0:9444"),
			[]string{"--extender-bind-address", "not loopback", "--cert-dir is required"}},
		"plain HTTP on loopback":       {valid("--extender-bind-address=localhost:9444"), nil},
		"open to clients of a CA":      {valid("--cert-dir=/c", "--client-ca=/ca", "--extender-bind-address=:9444"), nil},
		"a certificate, loopback only": {valid("--cert-dir=/c"), nil},
		"loopback of version 6":        {valid("--cert-dir=/c", "--extender-bind-address=[::1]:9444"), nil},
		"no scheduler":                 {valid("--extender-scheduler-names="), []string{"--extender-scheduler-names"}},
		"namespaces of DaemonSets":     {valid("--required-daemonset-namespaces=kube-system,cilium"), nil},
		"a namespace that is none": {valid("--required-daemonset-namespaces=kube-system,"),
			[]string{"--required-daemonset-namespaces", `"" is no namespace`}},
		"a negative time": {valid("--fake-boot-time=-1s"), []string{"--fake-boot-time", "must not be negative"}},
		"everything wrong at once": {[]string{"--client-ca=/ca"}, []string{"--cluster-name", "--cloud-provider",
			"--client-ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, nil, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			err = o.Validate()
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("error %v, want one: %v", err, len(c.want) > 0)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestExtenderCertDir(t *testing.T) {
	for name, c := range map[string]struct{ address, ca, want string }{
		"loopback: the scheduler of the same pod speaks plain HTTP": {"127.0.0.1:9444", "", ""},
		"localhost is loopback":         {"localhost:9444", "", ""},
		"loopback with client CAs":      {"127.0.0.1:9444", "/ca", "/certs"},
		"all addresses":                 {":9444", "/ca", "/certs"},
		"what cannot be read is no one": {"nonsense", "/ca", "/certs"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Options{ExtenderBindAddress: c.address, ClientCA: c.ca, CertDir: "/certs"}
			if got := o.ExtenderCertDir(); got != c.want {
				t.Errorf("folder %q, want %q", got, c.want)
			}
		})
	}
}

func TestFakeCloudSettings(t *testing.T) {
	o, err := (&Fake{BootTime: 0, StopTime: time.Second, PullTime: time.Minute}).Cloud()
	if err != nil {
		t.Fatal(err)
	}
	if want := (fake.Times{Boot: -1, Stop: time.Second, Pull: time.Minute}); o.Times != want {
		t.Errorf("times %+v, want %+v: 0 on the command line is no time at all", o.Times, want)
	}
	for flag, f := range map[string]*Fake{"--fake-instance-types": {InstanceTypes: "big"},
		"--fake-capacity": {Capacity: "zone-a"}} {
		if _, err := f.Cloud(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("error %v does not name %s", err, flag)
		}
	}
}

func TestManagerOptions(t *testing.T) {
	o := &Options{LeaderElect: true, Namespace: "ns", MetricsBindAddress: ":1", ProbeBindAddress: ":2",
		PprofBindAddress: ":3"}
	got := o.Manager(runtime.NewScheme())
	if !got.LeaderElection || got.LeaderElectionNamespace != "ns" || got.LeaderElectionID != "stratos" ||
		!got.LeaderElectionReleaseOnCancel {
		t.Errorf("leader election %+v", got)
	}
	if got.LeaseDuration == nil || *got.LeaseDuration != 6*time.Second || *got.RenewDeadline != 4*time.Second ||
		*got.RetryPeriod != time.Second {
		t.Errorf("lease %v, renewed within %v, every %v", got.LeaseDuration, got.RenewDeadline, got.RetryPeriod)
	}
	if got.Metrics.BindAddress != ":1" || got.HealthProbeBindAddress != ":2" || got.PprofBindAddress != ":3" {
		t.Errorf("addresses %s %s %s", got.Metrics.BindAddress, got.HealthProbeBindAddress, got.PprofBindAddress)
	}
}
