// Package price says what instances cost, by the prices of the user, who knows the discounts. It is
// pure.
package price

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// hoursPerMonth is how AWS counts a month for its prices per month.
const hoursPerMonth = 730

// Book are the prices of the user.
type Book struct {
	currency string
	// instances are per hour, by instance type; volumes per GiB and month, by volume type.
	instances, volumes map[string]float64
}

// currencies are codes such as USD.
var currencies = regexp.MustCompile(`^[A-Z]{3}$`)

// Parse reads prices: the fields currency, instances and volumes. nil is no prices: none are given.
// An error names the field.
func Parse(text []byte) (*Book, error) {
	var given struct {
		Currency  string         `json:"currency"`
		Instances map[string]any `json:"instances"`
		Volumes   map[string]any `json:"volumes"`
	}
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return nil, fmt.Errorf("prices: %w; the fields are currency, instances and volumes", err)
	}
	if given.Currency == "" && len(given.Instances) == 0 && len(given.Volumes) == 0 {
		return nil, nil //nolint:nilnil // no prices are no error
	}
	var errs []error
	if !currencies.MatchString(given.Currency) {
		errs = append(errs, fmt.Errorf("prices.currency: %q is no code of a currency, three letters such as USD",
			given.Currency))
	}
	b := &Book{currency: given.Currency, instances: map[string]float64{}, volumes: map[string]float64{}}
	for _, part := range []struct {
		name  string
		given map[string]any
		into  map[string]float64
	}{{"instances", given.Instances, b.instances}, {"volumes", given.Volumes, b.volumes}} {
		for _, key := range slices.Sorted(maps.Keys(part.given)) {
			amount, err := amountOf(part.given[key])
			if err != nil {
				errs = append(errs, fmt.Errorf("prices.%s[%s]: %w", part.name, key, err))
			}
			part.into[key] = amount
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, nil
}

// amountOf reads a number, also one in quotes.
func amountOf(given any) (float64, error) {
	amount, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(given)), 64)
	if err != nil || math.IsNaN(amount) || math.IsInf(amount, 0) || amount < 0 {
		return 0, fmt.Errorf("%q is no price: a number that is 0 or more", fmt.Sprint(given))
	}
	return amount, nil
}

// Volume is one that each instance has.
type Volume struct {
	Type string
	// GiB is the size; 0 where it is not known.
	GiB int64
}

// Of is what one instance of the type with the volumes costs per hour; nil where a price is not
// known.
func (b *Book) Of(instanceType string, volumes []Volume) *v1alpha1.Price {
	if b == nil {
		return nil
	}
	running, known := b.instances[instanceType]
	if !known {
		return nil
	}
	stopped := 0.0
	for _, v := range volumes {
		perMonth, known := b.volumes[v.Type]
		if !known || v.GiB <= 0 {
			return nil
		}
		stopped += perMonth * float64(v.GiB) / hoursPerMonth
	}
	return &v1alpha1.Price{Currency: b.currency, RunningPerHour: decimal(running + stopped),
		StoppedPerHour: decimal(stopped)}
}

// decimal has six digits after the point at most.
func decimal(amount float64) string {
	text := strconv.FormatFloat(amount, 'f', 6, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
