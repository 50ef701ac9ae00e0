package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestResourcesRoundTrip(t *testing.T) {
	for name, list := range map[string]corev1.ResourceList{
		"all kinds": {
			"cpu": resource.MustParse("3920m"), "memory": resource.MustParse("15155332Ki"),
			"ephemeral-storage": resource.MustParse("47Gi"),
			"pods":              resource.MustParse("58"), "nvidia.com/gpu": resource.MustParse("4"),
		},
		"a device that is not there": {"nvidia.com/gpu": resource.MustParse("0")},
		"nothing":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseResources(FormatResources(list))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(list, got); diff != "" {
				t.Errorf("after the round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// Equal amounts are written alike, or each look at a node would be a write to it.
func TestEqualResourcesGiveEqualText(t *testing.T) {
	a := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}
	b := corev1.ResourceList{"memory": resource.MustParse("16384Mi"), "cpu": resource.MustParse("4000m")}
	if FormatResources(a) != FormatResources(b) {
		t.Errorf("%s and %s", FormatResources(a), FormatResources(b))
	}
	if got, want := FormatResources(a), `{"cpu":"4","memory":"16Gi"}`; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
}

func TestParseResourcesOfWhatSomebodyElseWrote(t *testing.T) {
	for text, bad := range map[string]bool{"": false, "{}": false, "{": true, `{"cpu":"a lot"}`: true, `["cpu"]`: true,
		"4": true} {
		if _, err := ParseResources(text); (err != nil) != bad {
			t.Errorf("%q: error %v, want one: %v", text, err, bad)
		}
	}
}
