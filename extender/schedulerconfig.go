package extender

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentbasev1alpha1 "k8s.io/component-base/config/v1alpha1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/minors"
)

// Wiring is how kube-scheduler reaches the extender. docs/scheduler.md describes the ways.
type Wiring string

// The wirings that need a scheduler configuration.
const (
	// WiringDedicated is a kube-scheduler container in each Stratos pod that asks over loopback.
	WiringDedicated Wiring = "dedicated"
	// WiringControlPlane is a second kube-scheduler as a static pod that asks over mutual TLS.
	WiringControlPlane Wiring = "control-plane"
)

const (
	// DefaultExtenderURL is where the dedicated scheduler finds the extender of its own pod.
	DefaultExtenderURL = "http://127.0.0.1:9444"
	// DefaultHTTPTimeout is how long kube-scheduler waits for an answer that takes milliseconds.
	// While it waits it schedules nothing else, so a longer wait does not help.
	DefaultHTTPTimeout = 2 * time.Second
	// DefaultQPS and DefaultBurst keep kube-scheduler's client from being what a burst of pods waits
	// for: at its own default of 50 and 100 the last of 1000 pods is asked about three times later.
	DefaultQPS float32 = 1000
	// DefaultBurst goes with DefaultQPS.
	DefaultBurst int32 = 2000

	// stockLeaseName is the lease of the control plane's own scheduler.
	stockLeaseName = schedulerv1.SchedulerDefaultLockObjectName

	// LeaseDuration, RenewDeadline and RetryPeriod are those of every leader in a Stratos pod: a
	// crashed one is replaced after at most 6 s, while the stock 15 s would leave every Stratos pod
	// waiting longer than its node takes to boot.
	LeaseDuration = 6 * time.Second
	// RenewDeadline goes with LeaseDuration.
	RenewDeadline = 4 * time.Second
	// RetryPeriod goes with LeaseDuration.
	RetryPeriod = time.Second

	// maxBackoffSeconds: the stock 10 s would be a third of a node's boot.
	maxBackoffSeconds int64 = 2
)

// SchedulerTLS are the files with which kube-scheduler connects to the extender over https, as
// paths in kube-scheduler's own file system.
type SchedulerTLS struct {
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// SchedulerConfigOptions say for which cluster and wiring a configuration is generated. Fields
// with a default take it when zero.
type SchedulerConfigOptions struct {
	Wiring Wiring
	// KubernetesMinor is the cluster's minor version, such as 1.37. A patch version is ignored.
	KubernetesMinor string
	// SchedulerName is what pods name in spec.schedulerName. Default: v1alpha1.SchedulerName.
	SchedulerName string
	// LeaderElect makes replicas take turns on the lease LeaseNamespace/LeaseName.
	LeaderElect    bool
	LeaseNamespace string
	LeaseName      string
	// Kubeconfig is a path in kube-scheduler's file system. Empty: its pod's service account.
	Kubeconfig string
	// ExtenderURL is the extender's address without a verb. Default for the dedicated wiring:
	// DefaultExtenderURL.
	ExtenderURL string
	TLS         SchedulerTLS
	// HTTPTimeout of one call. Default: DefaultHTTPTimeout.
	HTTPTimeout time.Duration
	// QPS and Burst limit kube-scheduler's own calls to the API server, per second and at once.
	// Default: DefaultQPS, DefaultBurst.
	QPS   float32
	Burst int32
}

func (o SchedulerConfigOptions) withDefaults() SchedulerConfigOptions {
	if o.SchedulerName == "" {
		o.SchedulerName = v1alpha1.SchedulerName
	}
	if o.ExtenderURL == "" && o.Wiring == WiringDedicated {
		o.ExtenderURL = DefaultExtenderURL
	}
	if o.HTTPTimeout == 0 {
		o.HTTPTimeout = DefaultHTTPTimeout
	}
	if o.QPS == 0 {
		o.QPS = DefaultQPS
	}
	if o.Burst == 0 {
		o.Burst = DefaultBurst
	}
	return o
}

// Untested says in a sentence that Stratos was not tested with the Kubernetes version, of the one
// minor after the newest that is supported. It is "" for every other version.
func Untested(kubernetes string) string {
	if !minors.IsUntested(kubernetes) {
		return ""
	}
	supported := minors.Supported()
	return "Stratos was not tested with Kubernetes " + minors.Of(kubernetes) + ": this is the configuration for " +
		supported[len(supported)-1] + "."
}

// SchedulerConfig generates the KubeSchedulerConfiguration, as YAML, with which a kube-scheduler
// asks the extender about standby nodes. Errors name the option that is wrong; all are reported.
func SchedulerConfig(options SchedulerConfigOptions) ([]byte, error) {
	options = options.withDefaults()
	if err := validateSchedulerConfig(options); err != nil {
		return nil, err
	}
	config, err := schedulerConfiguration(options)
	if err != nil {
		return nil, err
	}
	body, err := marshalSparse(config)
	if err != nil {
		return nil, err
	}
	return append([]byte(schedulerConfigHead(options)), body...), nil
}

func schedulerConfiguration(o SchedulerConfigOptions) (*schedulerv1.KubeSchedulerConfiguration, error) {
	profile, err := schedulerProfile(o.SchedulerName)
	if err != nil {
		return nil, err
	}
	return &schedulerv1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: schedulerv1.SchemeGroupVersion.String(),
			Kind:       "KubeSchedulerConfiguration",
		},
		LeaderElection: componentbasev1alpha1.LeaderElectionConfiguration{
			LeaderElect:       ptr.To(o.LeaderElect),
			LeaseDuration:     metav1.Duration{Duration: LeaseDuration},
			RenewDeadline:     metav1.Duration{Duration: RenewDeadline},
			RetryPeriod:       metav1.Duration{Duration: RetryPeriod},
			ResourceLock:      "leases",
			ResourceName:      o.LeaseName,
			ResourceNamespace: o.LeaseNamespace,
		},
		ClientConnection: componentbasev1alpha1.ClientConnectionConfiguration{
			Kubeconfig: o.Kubeconfig,
			QPS:        o.QPS,
			Burst:      o.Burst,
		},
		PodMaxBackoffSeconds: ptr.To(maxBackoffSeconds),
		Profiles:             []schedulerv1.KubeSchedulerProfile{profile},
		Extenders:            []schedulerv1.Extender{schedulerExtender(o)},
	}, nil
}

func schedulerProfile(name string) (schedulerv1.KubeSchedulerProfile, error) {
	// Without TypeMeta: kube-scheduler takes the kind from the plugin's name.
	preemption, err := json.Marshal(schedulerv1.DefaultPreemptionArgs{
		// Else the dry run shortlists a tenth of the nodes, and the extender may drop all of those.
		MinCandidateNodesPercentage: ptr.To[int32](100),
	})
	if err != nil {
		return schedulerv1.KubeSchedulerProfile{}, fmt.Errorf("arguments of DefaultPreemption: %w", err)
	}
	// Pods fill the nodes that run, so that others become empty and stop. Scoring by the extender
	// (/prioritize) would say the same for the price of one more question per pod.
	packing, err := json.Marshal(schedulerv1.NodeResourcesFitArgs{
		ScoringStrategy: &schedulerv1.ScoringStrategy{Type: schedulerv1.MostAllocated},
	})
	if err != nil {
		return schedulerv1.KubeSchedulerProfile{}, fmt.Errorf("arguments of NodeResourcesFit: %w", err)
	}
	return schedulerv1.KubeSchedulerProfile{
		SchedulerName: ptr.To(name),
		// Sampling could stop at standby nodes and never see a running one.
		PercentageOfNodesToScore: ptr.To[int32](100),
		Plugins: &schedulerv1.Plugins{
			Filter: schedulerv1.PluginSet{
				Disabled: []schedulerv1.Plugin{{Name: "TaintToleration"}, {Name: "NodeUnschedulable"}},
			},
		},
		PluginConfig: []schedulerv1.PluginConfig{
			{Name: "DefaultPreemption", Args: runtime.RawExtension{Raw: preemption}},
			{Name: "NodeResourcesFit", Args: runtime.RawExtension{Raw: packing}},
		},
	}, nil
}

func schedulerExtender(o SchedulerConfigOptions) schedulerv1.Extender {
	extender := schedulerv1.Extender{
		URLPrefix:        o.ExtenderURL,
		FilterVerb:       verbFilter,
		PreemptVerb:      verbPreempt,
		NodeCacheCapable: true,
		// With the two filters moved, a failure that is ignored would put pods on tainted nodes.
		Ignorable:   false,
		HTTPTimeout: metav1.Duration{Duration: o.HTTPTimeout},
	}
	if isHTTPS(o.ExtenderURL) {
		extender.EnableHTTPS = true
		extender.TLSConfig = &schedulerv1.ExtenderTLSConfig{
			ServerName: o.TLS.ServerName,
			CAFile:     o.TLS.CAFile,
			CertFile:   o.TLS.CertFile,
			KeyFile:    o.TLS.KeyFile,
		}
	}
	return extender
}

// marshalSparse writes YAML without empty fields. The Go types write a key for each extension
// point, and those that a newer minor added are unknown to an older kube-scheduler, which refuses
// unknown keys.
func marshalSparse(config *schedulerv1.KubeSchedulerConfiguration) ([]byte, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("KubeSchedulerConfiguration: %w", err)
	}
	prune(object)
	return yaml.Marshal(object)
}

// prune removes null, "", empty lists and objects, and what becomes empty by that. Zero numbers and
// false stay: they are said on purpose where a type writes them.
func prune(object map[string]any) {
	maps.DeleteFunc(object, func(_ string, value any) bool {
		switch v := value.(type) {
		case nil:
			return true
		case string:
			return v == ""
		case map[string]any:
			prune(v)
			return len(v) == 0
		case []any:
			for _, element := range v {
				if nested, ok := element.(map[string]any); ok {
					prune(nested)
				}
			}
			return len(v) == 0
		}
		return false
	})
}

func schedulerConfigHead(o SchedulerConfigOptions) string {
	head := []string{"# Generated by stratos scheduler-config for wiring " + string(o.Wiring) + ", Kubernetes " +
		minors.Of(o.KubernetesMinor) + "."}
	if warning := Untested(o.KubernetesMinor); warning != "" {
		head = append(head, "# "+warning)
	}
	return strings.Join(append(
		head,
		"# The kube-scheduler that reads this must have the cluster's minor version.",
		"#",
		"# The filters TaintToleration and NodeUnschedulable are disabled because a standby node is tainted",
		"# and cordoned: they would reject it before the extender is asked, and kube-scheduler does not ask",
		"# the extender at all where no node is left. The extender makes both checks itself, by the same",
		"# rules, for every node. That is why it must not be ignorable: without it, pods would be bound to",
		"# tainted and cordoned nodes.",
		"#",
		"# Extenders belong to the process, not to the profile. Do not merge this into the scheduler that",
		"# schedules kube-system, Stratos or cert-manager: with Stratos down it would schedule nothing.",
		"",
	), "\n")
}

func validateSchedulerConfig(o SchedulerConfigOptions) error {
	return errors.Join(
		validateMinor(o.KubernetesMinor),
		validateSchedulerName(o.SchedulerName),
		validateLease(o),
		validateWiring(o),
		validateExtenderURL(o),
		validateLimits(o),
	)
}

func validateMinor(text string) error {
	if slices.Contains(minors.Supported(), minors.Of(text)) || Untested(text) != "" {
		return nil
	}
	return fmt.Errorf(
		"kubernetesMinor: %q is not supported; supported are %s: kube-scheduler must have the cluster's own minor "+
			"(a newer one never syncs its caches against an API server that lacks resource.k8s.io/v1, which 1.34 brought), "+
			"and a configuration is generated only for minors it was tested with and for the next one",
		text,
		strings.Join(minors.Supported(), ", "),
	)
}

func validateSchedulerName(name string) error {
	if name == corev1.DefaultSchedulerName {
		return fmt.Errorf("schedulerName: %q is the stock scheduler's: two schedulers would bind the same pods, "+
			"and pods of the whole cluster would wait for the extender", name)
	}
	return nil
}
