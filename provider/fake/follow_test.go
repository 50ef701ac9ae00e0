package fake

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestFallbackTypesInTheStatus: in the order of the spec, each with why it cannot be used.
func TestFallbackTypesInTheStatus(t *testing.T) {
	t.Parallel()
	types, err := ParseTypes("first=cpu:4,memory:16Gi,example.com/fpga:1;equal=cpu:4,memory:16Gi,example.com/fpga:1;" +
		"larger=cpu:8,memory:32Gi,example.com/fpga:1,pods:234;slower=cpu:2,memory:16Gi,example.com/fpga:1;" +
		"smaller=cpu:4,memory:8Gi,example.com/fpga:1;crowded=cpu:4,memory:16Gi,example.com/fpga:1,pods:58;" +
		"more=cpu:4,memory:16Gi,example.com/fpga:2;without=cpu:4,memory:16Gi;" +
		"other=cpu:4,memory:16Gi,example.com/fpga:1,example.com/gpu:1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"first": "", "equal": "", "larger": "",
		"slower":    "cpu: slower has 2, less than first with 4",
		"smaller":   "memory: smaller has 8Gi, less than first with 16Gi",
		"crowded":   "pods: crowded has 58, less than first with 110",
		"more":      "example.com/fpga: more has 2, first has 1, and both must be equal",
		"without":   "example.com/fpga: without has 0, first has 1, and both must be equal",
		"other":     "example.com/gpu: other has 1, first has 0, and both must be equal",
		"m7g.large": "architecture: m7g.large has arm64, first has amd64, and both must be equal",
		"m99.large": "the fake cloud knows no such type",
	}
	inCloud(t, Options{Types: types}, func(t *testing.T, a *account) {
		a.class.Spec.InstanceType = "first"
		if got, err := a.cloud.ResolveNodeClass(t.Context(), a.class); err != nil || got.InstanceTypes != nil {
			t.Errorf("a class without fallback types has %v, error %v", got.InstanceTypes, err)
		}
		a.class.Spec.FallbackInstanceTypes = []string{"equal", "larger", "slower", "smaller", "crowded", "more", "without",
			"other", "m7g.large", "m99.large"}
		got, err := a.cloud.ResolveNodeClass(t.Context(), a.class)
		a.must(err)
		reasons := map[string]string{}
		for i, s := range got.InstanceTypes {
			reasons[s.Type] = s.Reason
			if s.Usable != (s.Reason == "") || s.Type != a.class.Spec.NamedTypes()[i] {
				t.Errorf("entry %d is %+v", i, s)
			}
		}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		a.class.Spec.UserData = "settings.kubernetes.memory-manager-policy = \"Static\""
		got, err = a.cloud.ResolveNodeClass(t.Context(), a.class)
		a.must(err)
		if s := got.InstanceTypes[1]; s.Usable || s.Reason != "memory-manager-policy is Static" {
			t.Errorf("with the policy Static: %+v", s)
		}
	})
}

// TestLaunchesOfFallbackTypes: only types that the status in use calls usable. The error is that of
// the first type.
func TestLaunchesOfFallbackTypes(t *testing.T) {
	t.Parallel()
	usable := func(kinds ...string) []v1alpha1.InstanceTypeStatus {
		var all []v1alpha1.InstanceTypeStatus
		for _, kind := range kinds {
			all = append(all, v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
		}
		return all
	}
	for name, c := range map[string]struct {
		status     []v1alpha1.InstanceTypeStatus
		generation int64
		dry        string
		want       string
	}{
		"not resolved yet":                 {want: "r5.large"},
		"as the status says":               {status: usable("m5.large", "m6i.large"), want: "m6i.large"},
		"the spec is newer":                {status: usable("m5.large", "c5.large"), generation: 2, want: "r5.large"},
		"none is usable":                   {status: usable("m5.large")},
		"the usable one is dry, too":       {status: usable("m6i.large"), dry: "m6i.large"},
		"two are usable, and one has room": {status: usable("m6i.large", "r5.large"), dry: "m6i.large", want: "r5.large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCloud(t, Options{}, func(t *testing.T, a *account) {
				a.class.Spec.FallbackInstanceTypes = []string{"c5.large", "m6i.large", "r5.large"}
				a.class.Status.InstanceTypes, a.class.Generation = c.status, c.generation
				if c.status == nil || c.generation > 0 {
					a.class.Spec.FallbackInstanceTypes = []string{"c5.large", "r5.large"} // c5.large has less memory
				}
				for _, kind := range []string{"m5.large", c.dry} {
					if kind != "" {
						a.arm(Fault{Kind: FaultInsufficientCapacity, Op: OpLaunch, Type: kind})
					}
				}
				got, err := a.cloud.LaunchInstance(t.Context(), a.class, provider.LaunchRequest{Zone: "us-east-1b"})
				if c.want == "" {
					if !provider.IsInsufficientCapacity(err) || !strings.Contains(err.Error(), "m5.large in us-east-1b") {
						t.Errorf("%v, want no capacity for m5.large", err)
					}
					return
				}
				a.must(err)
				if got.Type != c.want || got.Zone != "us-east-1b" {
					t.Errorf("an instance of type %s in %s, want %s", got.Type, got.Zone, c.want)
				}
			})
		})
	}
}

// TestATokenAndTheFallbackTypes: the same request is the same launch while the list changes.
func TestATokenAndTheFallbackTypes(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		req := provider.LaunchRequest{ClientToken: "slot"}
		first, err := a.cloud.LaunchInstance(t.Context(), a.class, req)
		a.must(err)
		a.class.Spec.FallbackInstanceTypes = []string{"m6i.large"}
		again, err := a.cloud.LaunchInstance(t.Context(), a.class, req)
		if err != nil || again.ID != first.ID {
			t.Errorf("%+v, error %v; want %s", again, err, first.ID)
		}
	})
}
