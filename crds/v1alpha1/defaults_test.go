package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func TestRuntimeLimit(t *testing.T) {
	tests := map[string]struct {
		value *intstr.IntOrString
		want  time.Duration
	}{
		"absent":                     {nil, 0},
		"the number 0":               {ptr.To(intstr.FromInt32(0)), 0},
		"the text 0":                 {ptr.To(intstr.FromString("0")), 0},
		"0s":                         {ptr.To(intstr.FromString("0s")), 0},
		"24h":                        {ptr.To(intstr.FromString("24h")), 24 * time.Hour},
		"1h30m":                      {ptr.To(intstr.FromString("1h30m")), 90 * time.Minute},
		"refused: another number":    {ptr.To(intstr.FromInt32(24)), 0},
		"refused: negative":          {ptr.To(intstr.FromString("-24h")), 0},
		"refused: not a duration":    {ptr.To(intstr.FromString("1 day")), 0},
		"refused: text without unit": {ptr.To(intstr.FromString("24")), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.NodePoolSpec{MaxNodeRuntime: tt.value}
			if got := spec.RuntimeLimit(); got != tt.want {
				t.Errorf("RuntimeLimit() = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBudgetIsACountOrAPercentageRoundedUpAndAtLeastOne(t *testing.T) {
	tests := map[string]struct {
		value    *intstr.IntOrString
		poolSize int32
		want     int32
	}{
		"unset is a tenth":                  {nil, 50, 5},
		"a tenth of 11 is rounded up":       {nil, 11, 2},
		"a tenth of 10 is exact":            {nil, 10, 1},
		"a percentage is at least one":      {ptr.To(intstr.FromString("1%")), 1, 1},
		"one per cent of 101 is rounded up": {ptr.To(intstr.FromString("1%")), 101, 2},
		"all of it":                         {ptr.To(intstr.FromString("100%")), 1000, 1000},
		"a count":                           {ptr.To(intstr.FromInt32(7)), 3, 7},
		"an empty pool still has one":       {nil, 0, 1},
		"refused: zero":                     {ptr.To(intstr.FromInt32(0)), 10, 1},
		"refused: zero per cent":            {ptr.To(intstr.FromString("0%")), 50, 5},
		"refused: garbage":                  {ptr.To(intstr.FromString("many")), 50, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := v1alpha1.Disruption{Budget: tt.value}
			if got := d.BudgetOrDefault(tt.poolSize); got != tt.want {
				t.Errorf("BudgetOrDefault(%d) = %d, want %d", tt.poolSize, got, tt.want)
			}
		})
	}
}

// answers is what the accessors of an object say.
type answers struct {
	Weight, StartBudget                                                  int32
	Timeout, ReadyTimeout, EmptyNodeTTL, DrainTimeout, StandbySurplusTTL time.Duration
	ScaleDown                                                            bool
	TimeoutAction                                                        v1alpha1.TimeoutAction
	CompletionMode                                                       v1alpha1.CompletionMode
	ImagePullPolicy                                                      v1alpha1.ImagePullPolicy
	StartupTaintRemoval                                                  v1alpha1.StartupTaintRemoval
	Drift                                                                v1alpha1.DriftPolicy
	Anticipate                                                           v1alpha1.Anticipate
}

func ask(s v1alpha1.NodePoolSpec) answers {
	return answers{
		Weight: s.WeightOrDefault(), StartBudget: s.ScaleUp.StartBudgetOrDefault(s.PoolSize),
		Timeout: s.PreWarm.TimeoutOrDefault(), ReadyTimeout: s.ScaleUp.ReadyTimeoutOrDefault(),
		EmptyNodeTTL: s.ScaleDown.EmptyNodeTTLOrDefault(), DrainTimeout: s.ScaleDown.DrainTimeoutOrDefault(),
		StandbySurplusTTL: s.ScaleDown.StandbySurplusTTLOrDefault(), ScaleDown: s.ScaleDown.EnabledOrDefault(),
		TimeoutAction: s.PreWarm.TimeoutActionOrDefault(), CompletionMode: s.PreWarm.CompletionModeOf(nil),
		ImagePullPolicy: s.PreWarm.ImagePullPolicyOrDefault(), StartupTaintRemoval: s.Template.StartupTaintRemovalOrDefault(),
		Drift: s.Disruption.DriftOrDefault(), Anticipate: s.ScaleUp.AnticipateOrDefault(),
	}
}

func TestAccessorsOfAPool(t *testing.T) {
	lasting := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	tests := map[string]struct {
		spec v1alpha1.NodePoolSpec
		want answers
	}{
		"nothing set: the defaults": {v1alpha1.NodePoolSpec{PoolSize: 12}, answers{
			Weight: 10, StartBudget: 12, Timeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, EmptyNodeTTL: 5 * time.Minute,
			DrainTimeout: 5 * time.Minute, StandbySurplusTTL: 24 * time.Hour, ScaleDown: true, TimeoutAction: "stop",
			CompletionMode: "SelfStop", ImagePullPolicy: "Required", StartupTaintRemoval: "WhenNetworkReady", Drift: "Recycle",
			Anticipate: "Replicas",
		}},
		"all set, with zero where it means something": {v1alpha1.NodePoolSpec{
			PoolSize: 12, Weight: ptr.To[int32](0),
			Template: v1alpha1.NodeTemplate{StartupTaintRemoval: v1alpha1.RemoveExternal},
			PreWarm: v1alpha1.PreWarm{
				Timeout: lasting(time.Second), TimeoutAction: v1alpha1.TimeoutTerminate,
				CompletionMode: v1alpha1.ControllerStop, ImagePullPolicy: v1alpha1.ImagesBestEffort,
			},
			ScaleUp: v1alpha1.ScaleUp{ReadyTimeout: lasting(2 * time.Second), StartBudget: ptr.To[int32](3),
				Anticipate: v1alpha1.AnticipateOff},
			ScaleDown: v1alpha1.ScaleDown{Enabled: ptr.To(false), EmptyNodeTTL: lasting(0),
				DrainTimeout: lasting(4 * time.Second), StandbySurplusTTL: lasting(0)},
			Disruption: v1alpha1.Disruption{Drift: v1alpha1.DriftIgnore},
		}, answers{
			StartBudget: 3, Timeout: time.Second, ReadyTimeout: 2 * time.Second, DrainTimeout: 4 * time.Second,
			TimeoutAction:  "terminate",
			CompletionMode: "ControllerStop", ImagePullPolicy: "BestEffort", StartupTaintRemoval: "External", Drift: "Ignore",
			Anticipate: "Off",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ask(tt.spec)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccessorsOfAClass(t *testing.T) {
	type answers struct {
		VolumeType, Tokens, Endpoint string
		Hops                         int32
		Delete, Hibernate            bool
	}
	tests := map[string]struct {
		class  v1alpha1.AWSNodeClassSpec
		volume v1alpha1.BlockDeviceMapping
		want   answers
	}{
		"nothing set": {want: answers{VolumeType: "gp3", Tokens: "required", Endpoint: "enabled", Hops: 2, Delete: true}},
		"all set": {
			v1alpha1.AWSNodeClassSpec{
				MetadataOptions: v1alpha1.MetadataOptions{HTTPTokens: "optional", HTTPPutResponseHopLimit: ptr.To[int32](1),
					HTTPEndpoint: "disabled"},
				Hibernation: &v1alpha1.Hibernation{Enabled: true},
			},
			v1alpha1.BlockDeviceMapping{VolumeType: "io2", DeleteOnTermination: ptr.To(false)},
			answers{VolumeType: "io2", Tokens: "optional", Endpoint: "disabled", Hops: 1, Hibernate: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := tt.class.MetadataOptions
			got := answers{
				tt.volume.VolumeTypeOrDefault(), m.HTTPTokensOrDefault(), m.HTTPEndpointOrDefault(),
				m.HTTPPutResponseHopLimitOrDefault(),
				tt.volume.DeleteOnTerminationOrDefault(), tt.class.HibernationEnabled(),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatANodeOfEachFamilyNeedsOfItsCluster(t *testing.T) {
	var none *v1alpha1.BootstrapStatus
	if none.IsComplete() {
		t.Error("no status is complete")
	}
	all := v1alpha1.BootstrapCluster{Name: "c", Endpoint: "https://e", CertificateAuthority: "x", ServiceCIDR: "::/0"}
	for _, eks := range []v1alpha1.BootstrapFamily{v1alpha1.FamilyAL2023, v1alpha1.FamilyBottlerocket, ""} {
		want := []string{"name", "endpoint", "certificateAuthority", "serviceCIDR"}
		if diff := cmp.Diff(want, v1alpha1.BootstrapCluster{}.Missing(eks)); diff != "" {
			t.Errorf("family %q (-want +got):\n%s", eks, diff)
		}
		if !(&v1alpha1.BootstrapStatus{Family: eks, Cluster: all}).IsComplete() {
			t.Errorf("family %q: %v is not complete", eks, all)
		}
	}
	kubeadm := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyKubeadm}
	want := []string{"endpoint", "certificateAuthority"}
	if diff := cmp.Diff(want, kubeadm.Cluster.Missing(kubeadm.Family)); diff != "" || kubeadm.IsComplete() {
		t.Errorf("Kubeadm (-want +got):\n%s", diff)
	}
	kubeadm.Cluster = v1alpha1.BootstrapCluster{Endpoint: "https://e", CertificateAuthority: "x"}
	if !kubeadm.IsComplete() {
		t.Errorf("Kubeadm: %v is not complete", kubeadm.Cluster)
	}
}

func TestWhoStopsAnInstanceAtTheEndOfWarmUp(t *testing.T) {
	hand := &v1alpha1.AWSNodeClass{}
	written := &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{Bootstrap: &v1alpha1.Bootstrap{}}}
	for name, c := range map[string]struct {
		mode  v1alpha1.CompletionMode
		class v1alpha1.NodeClass
		want  v1alpha1.CompletionMode
	}{
		"unset, the class is not known":              {"", nil, v1alpha1.SelfStop},
		"unset, no class behind the interface":       {"", (*v1alpha1.AWSNodeClass)(nil), v1alpha1.SelfStop},
		"unset, hand-written user data":              {"", hand, v1alpha1.SelfStop},
		"unset, Stratos writes it":                   {"", written, v1alpha1.ControllerStop},
		"unset, a kind node":                         {"", &v1alpha1.KindNodeClass{}, v1alpha1.SelfStop},
		"SelfStop, as older pools are stored":        {v1alpha1.SelfStop, written, v1alpha1.SelfStop},
		"ControllerStop with hand-written user data": {v1alpha1.ControllerStop, hand, v1alpha1.ControllerStop},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&v1alpha1.PreWarm{CompletionMode: c.mode}).CompletionModeOf(c.class); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
