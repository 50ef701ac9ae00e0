package v1alpha1

import (
	"strings"
	"testing"
)

// TestUsableTypes: a fallback type is usable once the status says so, and only while the spec names
// it.
func TestUsableTypes(t *testing.T) {
	is := func(kind string, usable bool) InstanceTypeStatus {
		return InstanceTypeStatus{Type: kind, Usable: usable}
	}
	for name, c := range map[string]struct {
		fallback []string
		status   []InstanceTypeStatus
		want     string
	}{
		"no fallback types": {nil, nil, "m5.large"},
		"not resolved":      {[]string{"m6i.large"}, nil, "m5.large"},
		"in the order of the spec": {[]string{"b", "a"},
			[]InstanceTypeStatus{is("m5.large", true), is("a", true), is("b", true)}, "m5.large b a"},
		"one is not usable":         {[]string{"a", "b"}, []InstanceTypeStatus{is("a", false), is("b", true)}, "m5.large b"},
		"one is not named any more": {[]string{"b"}, []InstanceTypeStatus{is("a", true), is("b", true)}, "m5.large b"},
		"the first type once more": {[]string{"m5.large", "a", "a"},
			[]InstanceTypeStatus{is("m5.large", true), is("a", true)}, "m5.large a"},
		"the first is never left out": {nil, []InstanceTypeStatus{is("m5.large", false)}, "m5.large"},
	} {
		class := AWSNodeClass{Spec: AWSNodeClassSpec{InstanceType: "m5.large", FallbackInstanceTypes: c.fallback},
			Status: AWSNodeClassStatus{InstanceTypes: c.status}}
		if got := strings.Join(class.UsableTypes(), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := strings.Join(class.Spec.FallbackInstanceTypes, " "); got != strings.Join(c.fallback, " ") {
			t.Errorf("%s: the spec has become %s", name, got)
		}
	}
}
