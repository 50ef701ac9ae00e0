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

// offer is the type that a launch may be made as, the subnet, and what reservations it uses.
type offer struct {
	kind        string
	subnet      v1alpha1.ResolvedSubnet
	reservation v1alpha1.CapacityReservation
	// ended: the reservation has, and the class wants no other.
	ended bool
	key   tokenKey
}

// offerOf is the offer of a type, "" for the class's first, in a subnet. With onDemand it is the
// one that follows where the reservation that the class names has no room. isWanted is false where
// EC2 would refuse it, or where it would be the same once more.
func offerOf(class *v1alpha1.AWSNodeClass, request, kind string, subnet v1alpha1.ResolvedSubnet,
	onDemand bool) (o offer, isWanted bool) {
	o = offer{kind: cmp.Or(kind, class.Spec.InstanceType), subnet: subnet,
		key: tokenKey{request: request, subnet: subnet.ID, kind: kind, onDemand: onDemand}}
	want, _ := class.ReservationOf(o.kind, subnet.Zone)
	if onDemand {
		return o, want.ID != "" && !want.WithoutOnDemand()
	}
	o.reservation = want
	if s := class.Status.CapacityReservation; s != nil && want.ID == s.ID && want.WithoutOnDemand() {
		o.ended = s.Ended
		return o, s.InstanceType == o.kind && s.Zone == subnet.Zone
	}
	return o, true
}

func (o offer) isFallback() bool { return o.key.kind != "" }

// room is the capacity of the zone, or of the reservation, for the type.
func (o offer) room() offering {
	return offering{zone: o.subnet.Zone, kind: o.kind, binding: o.reservation.Binding()}
}

// addresses are those of the subnet, which instances of every type take.
func (o offer) addresses() offering { return offering{zone: o.subnet.ID} }

// offers are what a request tries, in this order: the subnets of the zone that it wants with the
// first type, in the reservation that the class names and then On-Demand, then with the next.
// Before these comes where a call of this request may have launched: only EC2's answer to the same
// call tells, also for a type that is not usable any more.
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
		for i := range 2 * len(subnets) {
			o, isWanted := offerOf(class, req.ClientToken, kind, subnets[i%len(subnets)], i >= len(subnets))
			switch {
			case r.tokens.isOpen(o.key):
				open = append(open, o)
			case n < len(usable) && isWanted:
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
	if o.ended {
		before.add(o, &provider.InsufficientCapacityError{Type: o.kind, Zone: o.subnet.Zone, Reservation: true,
			Err: fmt.Errorf("%s has ended", o.reservation.ID)}, false)
		return true
	}
	if until := r.launches.until(time.Now(), o.room(), o.addresses()); !until.IsZero() {
		before.add(o, &provider.InsufficientCapacityError{Type: o.kind, Zone: o.subnet.Zone,
			Reservation: o.reservation.Binding() != "",
			Err:         fmt.Errorf("refused before; tried again after %s", until.UTC().Format(time.RFC3339))}, false)
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
	case meansCapacity, meansReservation:
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
