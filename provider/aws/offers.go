package aws

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// offer is the type that a launch may be made as, and the subnet.
type offer struct {
	kind   string
	subnet v1alpha1.ResolvedSubnet
	key    tokenKey
}

func (o offer) isFallback() bool { return o.key.kind != "" }

// room is the capacity of the zone for the type.
func (o offer) room() offering { return offering{zone: o.subnet.Zone, kind: o.kind} }

// addresses are those of the subnet, which instances of every type take.
func (o offer) addresses() offering { return offering{zone: o.subnet.ID} }

// offers are what a request tries, in this order: the subnets of the zone that it wants with the
// first type, then with the next. Before these comes where a call of this request may have
// launched: only EC2's answer to the same call tells, also for a type that is not usable any more.
func (r *region) offers(class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) []offer {
	subnets := inOrder(class.Status.Subnets, req.Number)
	if req.Zone != "" {
		subnets = slices.DeleteFunc(subnets, func(s v1alpha1.ResolvedSubnet) bool { return s.Zone != req.Zone })
	}
	usable := class.UsableTypes()
	usable[0] = "" // as the keys of tokens name the first type
	kinds := usable
	for _, kind := range r.tokens.openKinds(req.ClientToken) {
		if !slices.Contains(usable, kind) {
			kinds = append(kinds, kind)
		}
	}
	var open, rest []offer
	for n, kind := range kinds {
		for _, s := range subnets {
			o := offer{kind: cmp.Or(kind, class.Spec.InstanceType), subnet: s,
				key: tokenKey{request: req.ClientToken, subnet: s.ID, kind: kind}}
			switch {
			case r.tokens.isOpen(o.key):
				open = append(open, o)
			case n < len(usable):
				rest = append(rest, o)
			}
		}
	}
	return append(open, rest...)
}

// refusals are why a launch has gone on from the offers before.
type refusals struct {
	// first is what is said of the first type, fallback what is said of another.
	first, fallback error
	// wrong says of a fallback type what a person has to see to.
	wrong string
	// spent are the families of types whose quota is used up, and the types that EC2 refuses
	// whatever the zone.
	spent []string
}

// add keeps the error. What a call was answered replaces what was kept.
func (f *refusals) add(o offer, err error, called bool) {
	kept := &f.first
	if o.isFallback() {
		kept = &f.fallback
	}
	if called || *kept == nil {
		*kept = err
	}
}

// err is what is said of the first type, which is what a user has asked for, unless nothing is.
func (f *refusals) err() error {
	var full *provider.InsufficientCapacityError
	if f.wrong != "" && errors.As(f.first, &full) {
		said := *full
		said.Err = fmt.Errorf("%w; %s", full.Err, f.wrong)
		return &said
	}
	return cmp.Or(f.first, f.fallback)
}

// leavesOut reports whether a call would be refused, by what refusals before have shown.
func (r *region) leavesOut(o offer, before *refusals) bool {
	if slices.Contains(before.spent, familyOf(o.kind)) || slices.Contains(before.spent, o.kind) {
		return true
	}
	if until := r.launches.until(time.Now(), o.room(), o.addresses()); !until.IsZero() {
		before.add(o, &provider.InsufficientCapacityError{Type: o.kind, Zone: o.subnet.Zone,
			Err: fmt.Errorf("refused before; tried again after %s", until.UTC().Format(time.RFC3339))}, false)
		return true
	}
	if err := r.quotas.check(o.kind, o.subnet.Zone, time.Now()); err != nil {
		before.add(o, err, true)
		before.spent = append(before.spent, familyOf(o.kind))
		return true
	}
	return false
}

// goesOn remembers a refusal and reports whether another offer may be taken. A launch that may have
// happened is never followed by another one.
func (r *region) goesOn(o offer, err, failed error, before *refusals) bool {
	if r.tokens.isOpen(o.key) {
		return false
	}
	switch classify(err).means {
	case meansCapacity:
		r.launches.refused(time.Now(), o.room())
	case meansAddresses:
		r.launches.refused(time.Now(), o.addresses())
	case meansQuota:
		before.spent = append(before.spent, familyOf(o.kind))
	case meansWrong, meansForbidden:
		// What is wrong with the image, a subnet or a group is so for every type.
		if !o.isFallback() || goneStale(failed) {
			return false
		}
		before.refuse(o, failed)
	case meansOther:
		if !o.isFallback() || !isUnauthorized(err) {
			return false
		}
		before.refuse(o, failed) // a policy may allow some types only
	case meansRate, meansMissing, meansState:
		return false
	}
	before.add(o, failed, true)
	return true
}

// refuse takes the type of the offer out of the launch.
func (f *refusals) refuse(o offer, failed error) {
	f.spent = append(f.spent, o.kind)
	f.wrong = cmp.Or(f.wrong, fmt.Sprintf("%s is refused: %v", o.kind, failed))
}

// inOrder returns the subnets in the order in which the launch of that number tries them: each
// number begins one zone later and, after all zones, one subnet later. It depends on nothing else,
// so that a launch that is asked for again goes where it went.
func inOrder(subnets []v1alpha1.ResolvedSubnet, number int64) []v1alpha1.ResolvedSubnet {
	sorted := slices.Clone(subnets)
	slices.SortFunc(sorted, func(a, b v1alpha1.ResolvedSubnet) int {
		if a.Zone != b.Zone {
			return strings.Compare(a.Zone, b.Zone)
		}
		return strings.Compare(a.ID, b.ID)
	})
	byZone, zones := map[string][]v1alpha1.ResolvedSubnet{}, []string{}
	for _, s := range sorted {
		if byZone[s.Zone] == nil {
			zones = append(zones, s.Zone)
		}
		byZone[s.Zone] = append(byZone[s.Zone], s)
	}
	var out []v1alpha1.ResolvedSubnet
	if len(zones) == 0 {
		return out
	}
	number = max(number, 0)
	for round := int64(0); len(out) < len(subnets); round++ {
		for n := range zones {
			here := byZone[zones[(int(number%int64(len(zones)))+n)%len(zones)]]
			if round < int64(len(here)) {
				out = append(out, here[(number/int64(len(zones))+round)%int64(len(here))])
			}
		}
	}
	return out
}
