package extender

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/extender/minors"
)

// goldenUpdateEnv, set to 1, rewrites testdata instead of comparing with it.
const goldenUpdateEnv = "STRATOS_UPDATE_GOLDEN"

func dedicatedOptions(minor string) SchedulerConfigOptions {
	return SchedulerConfigOptions{
		Wiring:          WiringDedicated,
		KubernetesMinor: minor,
		LeaderElect:     true,
		LeaseNamespace:  "stratos-system",
		LeaseName:       "stratos-scheduler",
	}
}

func controlPlaneOptions(minor string) SchedulerConfigOptions {
	return SchedulerConfigOptions{
		Wiring:          WiringControlPlane,
		KubernetesMinor: minor,
		LeaderElect:     true,
		LeaseNamespace:  "kube-system",
		LeaseName:       "stratos-scheduler",
		Kubeconfig:      "/etc/kubernetes/scheduler.conf",
		ExtenderURL:     "https://10.96.0.50:9444",
		TLS: SchedulerTLS{
			CAFile:     "/etc/kubernetes/stratos/ca.crt",
			CertFile:   "/etc/kubernetes/stratos/tls.crt",
			KeyFile:    "/etc/kubernetes/stratos/tls.key",
			ServerName: "stratos-extender.stratos-system.svc",
		},
	}
}

// strictCodecs decode as kube-scheduler does.
func strictCodecs(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := schedulerv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

func decodeStrictly(t *testing.T, text []byte) *schedulerv1.KubeSchedulerConfiguration {
	t.Helper()
	decoder := strictCodecs(t)
	object, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("strict decoding: %v\n%s", err, text)
	}
	config, ok := object.(*schedulerv1.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("decoded a %T", object)
	}
	if err := config.DecodeNestedObjects(decoder); err != nil {
		t.Fatalf("plugin arguments: %v", err)
	}
	return config
}

func TestSchedulerConfigMatchesGoldenFiles(t *testing.T) {
	for _, minor := range minors.Supported() {
		for wiring, options := range map[Wiring]SchedulerConfigOptions{
			WiringDedicated:    dedicatedOptions(minor),
			WiringControlPlane: controlPlaneOptions(minor),
		} {
			t.Run(string(wiring)+" "+minor, func(t *testing.T) {
				got, err := SchedulerConfig(options)
				if err != nil {
					t.Fatal(err)
				}
				decodeStrictly(t, got)
				compareGolden(t, filepath.Join("testdata", string(wiring)+"-"+minor+".yaml"), got)
			})
		}
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv(goldenUpdateEnv) == "1" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with %s=1 to write it)", err, goldenUpdateEnv)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", path, diff)
	}
}

// What design fact 2 demands, in the words of the decoded types.
func TestSchedulerConfigSaysWhatTheDesignDemands(t *testing.T) {
	text, err := SchedulerConfig(controlPlaneOptions("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	config := decodeStrictly(t, text)
	profile, extender := config.Profiles[0], config.Extenders[0]
	preemption, ok := profile.PluginConfig[0].Args.Object.(*schedulerv1.DefaultPreemptionArgs)
	if !ok {
		t.Fatalf("DefaultPreemption has arguments of type %T", profile.PluginConfig[0].Args.Object)
	}
	resources, ok := profile.PluginConfig[1].Args.Object.(*schedulerv1.NodeResourcesFitArgs)
	if !ok {
		t.Fatalf("NodeResourcesFit has arguments of type %T", profile.PluginConfig[1].Args.Object)
	}
	got := map[string]any{
		"scheduler":        *profile.SchedulerName,
		"nodes scored":     *profile.PercentageOfNodesToScore,
		"filters disabled": profile.Plugins.Filter.Disabled,
		"other plugins":    cmp.Equal(*profile.Plugins, schedulerv1.Plugins{Filter: profile.Plugins.Filter}),
		"preemption":       *preemption.MinCandidateNodesPercentage,
		"absolute unset":   preemption.MinCandidateNodesAbsolute == nil,
		"packing":          resources.ScoringStrategy.Type,
		"back-off":         *config.PodMaxBackoffSeconds,
		"qps":              config.ClientConnection.QPS,
		"burst":            config.ClientConnection.Burst,
		"kubeconfig":       config.ClientConnection.Kubeconfig,
		"lease":            config.LeaderElection.ResourceNamespace + "/" + config.LeaderElection.ResourceName,
		"lease times": []time.Duration{
			config.LeaderElection.LeaseDuration.Duration,
			config.LeaderElection.RenewDeadline.Duration,
			config.LeaderElection.RetryPeriod.Duration,
		},
		"verbs":      []string{extender.FilterVerb, extender.PrioritizeVerb, extender.PreemptVerb, extender.BindVerb},
		"weight":     extender.Weight,
		"names only": extender.NodeCacheCapable,
		"ignorable":  extender.Ignorable,
		"timeout":    extender.HTTPTimeout.Duration,
		"https":      extender.EnableHTTPS,
		"tls":        *extender.TLSConfig,
	}
	want := map[string]any{
		"scheduler":        "stratos-scheduler",
		"nodes scored":     int32(100),
		"filters disabled": []schedulerv1.Plugin{{Name: "TaintToleration"}, {Name: "NodeUnschedulable"}},
		"other plugins":    true,
		"preemption":       int32(100),
		"absolute unset":   true,
		"packing":          schedulerv1.MostAllocated,
		"back-off":         int64(2),
		"qps":              float32(1000),
		"burst":            int32(2000),
		"kubeconfig":       "/etc/kubernetes/scheduler.conf",
		"lease":            "kube-system/stratos-scheduler",
		"lease times":      []time.Duration{6 * time.Second, 4 * time.Second, time.Second},
		"verbs":            []string{"filter", "", "preempt", ""},
		"weight":           int64(0),
		"names only":       true,
		"ignorable":        false,
		"timeout":          2 * time.Second,
		"https":            true,
		"tls": schedulerv1.ExtenderTLSConfig{
			ServerName: "stratos-extender.stratos-system.svc",
			CAFile:     "/etc/kubernetes/stratos/ca.crt",
			CertFile:   "/etc/kubernetes/stratos/tls.crt",
			KeyFile:    "/etc/kubernetes/stratos/tls.key",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSchedulerConfigDedicatedIsPlainHTTPOverLoopback(t *testing.T) {
	text, err := SchedulerConfig(dedicatedOptions("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	extender := decodeStrictly(t, text).Extenders[0]
	if extender.URLPrefix != "http://127.0.0.1:9444" || extender.EnableHTTPS || extender.TLSConfig != nil {
		t.Errorf("extender = %+v", extender)
	}
}

// An older kube-scheduler refuses keys that a newer minor's types write for nothing.
func TestSchedulerConfigWritesNoEmptyField(t *testing.T) {
	text, err := SchedulerConfig(dedicatedOptions("1.34"))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	plugins := object["profiles"].([]any)[0].(map[string]any)["plugins"]
	want := map[string]any{"filter": map[string]any{"disabled": []any{
		map[string]any{"name": "TaintToleration"}, map[string]any{"name": "NodeUnschedulable"},
	}}}
	if diff := cmp.Diff(want, plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	for _, empty := range []string{"{}", `""`, "null", "[]"} {
		if bytes.Contains(text, []byte(empty)) {
			t.Errorf("the configuration holds %s:\n%s", empty, text)
		}
	}
}

func TestSchedulerConfigExplainsTheDisabledFilters(t *testing.T) {
	text, err := SchedulerConfig(dedicatedOptions("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "apiVersion:")
	for _, word := range []string{"TaintToleration", "NodeUnschedulable", "before the extender is asked", "ignorable"} {
		if !strings.Contains(head, word) {
			t.Errorf("the head does not say %q:\n%s", word, head)
		}
	}
}

func TestSchedulerConfigTakesVersionsAsClustersReportThem(t *testing.T) {
	for _, reported := range []string{"1.37", "v1.37", "v1.37.2", "1.37+", "v1.37.2-eks-1234567"} {
		t.Run(reported, func(t *testing.T) {
			if _, err := SchedulerConfig(dedicatedOptions(reported)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheNextMinorGetsTheNewestConfiguration, and one that says so.
func TestTheNextMinorGetsTheNewestConfiguration(t *testing.T) {
	minors := minors.Supported()
	newest := minors[len(minors)-1]
	want, err := SchedulerConfig(dedicatedOptions(newest))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.38", "v1.38.0", "1.38+", "v1.38.1-eks-1234567"} {
		got, err := SchedulerConfig(dedicatedOptions(version))
		if err != nil {
			t.Fatal(err)
		}
		warning := "Stratos was not tested with Kubernetes 1.38: this is the configuration for 1.37."
		if said := Untested(version); said != warning {
			t.Errorf("%s: the warning is %q", version, said)
		}
		told := strings.Replace(string(want), "Kubernetes 1.37.\n", "Kubernetes 1.38.\n# "+warning+"\n", 1)
		if diff := cmp.Diff(told, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
	for _, version := range append(minors, "1.33", "1.39", "2.38", "", "latest") {
		if said := Untested(version); said != "" {
			t.Errorf("%q: %s", version, said)
		}
	}
}

func TestSchedulerConfigRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		base   SchedulerConfigOptions
		change func(*SchedulerConfigOptions)
		want   []string
	}{
		"a minor without resource.k8s.io/v1": {dedicatedOptions("1.33"), nil,
			[]string{`"1.33"`, "1.34, 1.35, 1.36, 1.37", "resource.k8s.io/v1"}},
		"two minors above the newest": {dedicatedOptions("1.39"), nil, []string{`"1.39"`, "1.34, 1.35, 1.36, 1.37"}},
		"no version":                  {dedicatedOptions(""), nil, []string{"kubernetesMinor"}},
		"words for a version":         {dedicatedOptions("latest"), nil, []string{`"latest"`}},
		"the stock scheduler's lease": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.LeaseName = "kube-scheduler" },
			[]string{"leaseName", "control plane's own scheduler"}},
		"the stock lease even without election": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.LeaseName, o.LeaderElect = "kube-scheduler", false }, []string{"leaseName"}},
		"election without a lease": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.LeaseName, o.LeaseNamespace = "", "" }, []string{"leaseName", "leaseNamespace"}},
		"the stock scheduler's name": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.SchedulerName = "default-scheduler" }, []string{"schedulerName"}},
		"an unknown wiring": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.Wiring = "sidecar" }, []string{`"sidecar"`, "dedicated, control-plane"}},
		"https without a CA": {controlPlaneOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.TLS.CAFile = "" }, []string{"tls.caFile", "does not verify"}},
		"https without a server name": {controlPlaneOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.TLS.ServerName = "" }, []string{"tls.serverName"}},
		"HTTPS in capitals without a CA": {controlPlaneOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.ExtenderURL, o.TLS.CAFile = "HTTPS://10.96.0.50", "" }, []string{"tls.caFile"}},
		"a key without its certificate": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) {
				o.ExtenderURL = "https://127.0.0.1:9444"
				o.TLS = SchedulerTLS{CAFile: "ca", ServerName: "s", KeyFile: "k"}
			}, []string{"tls.certFile"}},
		"the control plane without anything": {SchedulerConfigOptions{Wiring: WiringControlPlane, KubernetesMinor: "1.37"},
			nil,
			[]string{"kubeconfig", "extenderURL", "tls.certFile", "tls.keyFile"}},
		"plain http across the network": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.ExtenderURL = "http://10.96.0.50:9444" }, []string{"extenderURL", "loopback"}},
		"tls files that http ignores": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.TLS.CAFile = "ca" }, []string{"extenderURL", "would not be used"}},
		"an address without scheme": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.ExtenderURL = "localhost:9444" }, []string{"extenderURL"}},
		"a query": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.ExtenderURL = "http://127.0.0.1:9444/?x=1" },
			[]string{"extenderURL", "appends the verb"}},
		"negative numbers": {dedicatedOptions("1.37"),
			func(o *SchedulerConfigOptions) { o.QPS, o.Burst, o.HTTPTimeout = -1, -1, -1 },
			[]string{"qps", "burst", "httpTimeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := tc.base
			if tc.change != nil {
				tc.change(&options)
			}
			text, err := SchedulerConfig(options)
			if err == nil {
				t.Fatalf("accepted:\n%s", text)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}
