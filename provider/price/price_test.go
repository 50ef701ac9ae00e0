package price

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const prices = `
currency: USD
instances: {m6i.large: 0.096, m6i.xlarge: "0.192", free: 0}
volumes: {gp3: 0.08, st1: 0.045}
`

func TestWhatAnInstanceCosts(t *testing.T) {
	book, err := Parse([]byte(prices))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind    string
		volumes []Volume
		want    *v1alpha1.Price
	}{
		"one volume": {"m6i.large", []Volume{{"gp3", 73}},
			&v1alpha1.Price{Currency: "USD", RunningPerHour: "0.104", StoppedPerHour: "0.008"}},
		"two volumes": {"m6i.xlarge", []Volume{{"gp3", 73}, {"st1", 730}},
			&v1alpha1.Price{Currency: "USD", RunningPerHour: "0.245", StoppedPerHour: "0.053"}},
		"no volume":              {"m6i.large", nil, &v1alpha1.Price{Currency: "USD", RunningPerHour: "0.096", StoppedPerHour: "0"}},
		"a price of 0":           {"free", nil, &v1alpha1.Price{Currency: "USD", RunningPerHour: "0", StoppedPerHour: "0"}},
		"a type without a price": {"p5.48xlarge", nil, nil},
		"a volume without one":   {"m6i.large", []Volume{{"gp3", 73}, {"io2", 100}}, nil},
		"a volume of no size":    {"m6i.large", []Volume{{"gp3", 0}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, book.Of(c.kind, c.volumes)); diff != "" {
				t.Errorf("price (-want +got):\n%s", diff)
			}
		})
	}
	if got := (*Book)(nil).Of("m6i.large", nil); got != nil {
		t.Errorf("without prices: %+v", got)
	}
}

// TestPricesThatAreRefused: each with its field.
func TestPricesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"instances: {m6i.large: 0.096}":                  "prices.currency:",
		"currency: dollars":                              "prices.currency:",
		"{currency: USD, instances: {m6i.large: -1}}":    "prices.instances[m6i.large]:",
		"{currency: USD, instances: {m6i.large: free}}":  "prices.instances[m6i.large]:",
		"{currency: USD, volumes: {gp3: 'NaN'}}":         "prices.volumes[gp3]:",
		"{currency: USD, volumes: {gp3: 'Inf'}}":         "prices.volumes[gp3]:",
		"{currency: USD, instance: {m6i.large: 0.096}}":  "instance",
		"{currency: USD, instances: [m6i.large, 0.096]}": "instances",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, none := range []string{"", "{}", "instances: {}"} {
		if book, err := Parse([]byte(none)); book != nil || err != nil {
			t.Errorf("%q: %v, %v", none, book, err)
		}
	}
}
