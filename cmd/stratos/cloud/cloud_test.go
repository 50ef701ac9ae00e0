package cloud

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/fake"
	"github.com/stratos-sh/stratos/provider/price"
)

// resolved is a fake cloud that answers with the status.
type resolved struct {
	fake.API
	v1alpha1.AWSNodeClassStatus
}

func (r resolved) ResolveNodeClass(context.Context, *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error) {
	return r.AWSNodeClassStatus, nil
}

// TestPricesOfTheFakeCloud: each type that a class names has its own price, if it is known.
func TestPricesOfTheFakeCloud(t *testing.T) {
	prices, err := price.Parse([]byte("{currency: USD, instances: {m5.large: 0.096, m5.xlarge: 0.192}}"))
	if err != nil {
		t.Fatal(err)
	}
	class := &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{InstanceType: "m5.large"}}
	answer := v1alpha1.AWSNodeClassStatus{InstanceTypes: []v1alpha1.InstanceTypeStatus{{Type: "m5.large"},
		{Type: "m5.xlarge"}, {Type: "m6i.large"}}}
	found, err := priced{resolved{AWSNodeClassStatus: answer}, prices}.ResolveNodeClass(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	first := &v1alpha1.Price{Currency: "USD", RunningPerHour: "0.096", StoppedPerHour: "0"}
	second := &v1alpha1.Price{Currency: "USD", RunningPerHour: "0.192", StoppedPerHour: "0"}
	want := []v1alpha1.InstanceTypeStatus{{Type: "m5.large", Price: first}, {Type: "m5.xlarge", Price: second},
		{Type: "m6i.large"}}
	if diff := cmp.Diff(want, found.InstanceTypes) + cmp.Diff(first, found.Price); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}
