package ec2test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	testReservation = "cr-0123456789abcdef0"
	testReserved    = "arn:aws:resource-groups:us-east-1:123456789012:group/reserved"
)

func toID(id string) *types.CapacityReservationSpecification {
	return &types.CapacityReservationSpecification{
		CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String(id)}}
}

func toGroup(arn string) *types.CapacityReservationSpecification {
	return &types.CapacityReservationSpecification{
		CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationResourceGroupArn: aws.String(arn)}}
}

func prefers(p types.CapacityReservationPreference,
	also ...*types.CapacityReservationSpecification) *types.CapacityReservationSpecification {
	s := &types.CapacityReservationSpecification{CapacityReservationPreference: p}
	for _, o := range also {
		s.CapacityReservationTarget = o.CapacityReservationTarget
	}
	return s
}

func (a *testAccount) reserve(id string, s *types.CapacityReservationSpecification) error {
	_, err := a.client.ModifyInstanceCapacityReservationAttributes(a.t.Context(),
		&ec2.ModifyInstanceCapacityReservationAttributesInput{InstanceId: aws.String(id),
			CapacityReservationSpecification: s})
	return err
}

// TestStartsInReservations: two stopped instances are started one after the other, with one
// reserved place and no On-Demand capacity. The codes tell where each got its power, or why not.
func TestStartsInReservations(t *testing.T) {
	t.Parallel()
	const only = types.CapacityReservationPreferenceCapacityReservationsOnly
	one := func(change func(*CapacityReservation)) CapacityReservation {
		r := CapacityReservation{ID: testReservation, Type: "m5.large", Zone: "us-east-1a", Count: 1, Targeted: true,
			Groups: []string{testReserved}}
		if change != nil {
			change(&r)
		}
		return r
	}
	open := func(r *CapacityReservation) { r.Targeted = false }
	for name, c := range map[string]struct {
		reserved CapacityReservation
		wants    *types.CapacityReservationSpecification
		dry      bool
		codes    []string
		reserves string
	}{
		"unset uses one that is open":            {reserved: one(open), dry: true, codes: []string{"", codeCapacity}, reserves: testReservation},
		"open as well":                           {reserved: one(open), wants: prefers("open"), dry: true, codes: []string{"", codeCapacity}, reserves: testReservation},
		"unset does not use one that is named":   {reserved: one(nil), dry: true, codes: []string{codeCapacity, codeCapacity}},
		"unset goes On-Demand":                   {reserved: one(open), codes: []string{"", ""}, reserves: testReservation},
		"none":                                   {reserved: one(open), wants: prefers("none"), dry: true, codes: []string{codeCapacity, codeCapacity}},
		"only, without a target":                 {reserved: one(open), wants: prefers(only), codes: []string{"", codeReserved}, reserves: testReservation},
		"the id, and never On-Demand":            {reserved: one(nil), wants: toID(testReservation), codes: []string{"", codeReserved}, reserves: testReservation},
		"the id, of another type":                {reserved: one(func(r *CapacityReservation) { r.Type = "m5.xlarge" }), wants: toID(testReservation), codes: []string{codeReserved, codeReserved}},
		"the id, in another zone":                {reserved: one(func(r *CapacityReservation) { r.Zone = "us-east-1b" }), wants: toID(testReservation), codes: []string{codeReserved, codeReserved}},
		"the id, of another platform":            {reserved: one(func(r *CapacityReservation) { r.Platform = "Windows" }), wants: toID(testReservation), codes: []string{codeReserved, codeReserved}},
		"a group goes On-Demand by itself":       {reserved: one(nil), wants: toGroup(testReserved), codes: []string{"", ""}, reserves: testReservation},
		"a group of which no one is a match":     {reserved: one(func(r *CapacityReservation) { r.Type = "m5.xlarge" }), wants: toGroup(testReserved), codes: []string{"", ""}},
		"a group does not use what is not in it": {reserved: one(func(r *CapacityReservation) { r.Groups, r.Targeted = nil, false }), wants: toGroup(testReserved), dry: true, codes: []string{codeCapacity, codeCapacity}},
		"a group, and only that":                 {reserved: one(nil), wants: prefers(only, toGroup(testReserved)), codes: []string{"", codeReserved}, reserves: testReservation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := []simcloud.Capacity{{Zone: "us-east-1a", Type: "m5.large", Count: 2}}
			inAccount(t, simcloud.Options{Capacity: room}, Options{},
				func(t *testing.T, a *testAccount) {
					ids := a.standby(2)
					a.server.Reserve(c.reserved)
					if c.wants != nil {
						for _, id := range ids {
							if err := a.reserve(id, c.wants); err != nil {
								t.Fatal(err)
							}
						}
					}
					if c.dry { // others have what there is on demand
						in := runInput()
						in.MinCount, in.MaxCount = aws.Int32(2), aws.Int32(2)
						in.CapacityReservationSpecification = prefers("none")
						if _, err := a.client.RunInstances(t.Context(), in); err != nil {
							t.Fatal(err)
						}
					}
					codes := []string{codeOf(t, a.start(ids[0])), codeOf(t, a.start(ids[1]))}
					if diff := cmp.Diff(c.codes, codes); diff != "" {
						t.Errorf("codes (-want +got):\n%s", diff)
					}
					if got := aws.ToString(a.get(ids[0]).CapacityReservationId); got != c.reserves {
						t.Errorf("the first runs in %q, want %q", got, c.reserves)
					}
				})
		})
	}
}

// TestAReservationThatEnds: what runs in it goes on. A stopped instance that names it does not
// start until it names another, or none.
func TestAReservationThatEnds(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.standby(2)
		r := CapacityReservation{ID: testReservation, Type: "m5.large", Zone: "us-east-1a", Count: 2}
		a.server.Reserve(r)
		for _, id := range ids {
			if err := a.reserve(id, toID(testReservation)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.start(ids[0]); err != nil {
			t.Fatal(err)
		}
		a.after(time.Minute)
		r.State = "cancelled"
		a.server.Reserve(r)
		a.is(types.InstanceStateNameRunning, ids[0])
		if code := codeOf(t, a.start(ids[1])); code != codeReserved {
			t.Errorf("start of one that names it: %q", code)
		}
		if code := codeOf(t, a.reserve(ids[1], toID(testReservation))); code != codeInvalid {
			t.Errorf("it is named again: %q", code)
		}
		if err := a.reserve(ids[1], prefers("open")); err != nil {
			t.Fatal(err)
		}
		if err := a.start(ids[1]); err != nil {
			t.Error(err)
		}
		out, err := a.client.DescribeCapacityReservations(t.Context(),
			&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{testReservation}})
		if err != nil || len(out.CapacityReservations) != 1 || out.CapacityReservations[0].State != "cancelled" {
			t.Errorf("it is described as %+v, %v", out, err)
		}
	})
}

// TestReservationsOfInstances: what a call may say, and what is shown of it.
func TestReservationsOfInstances(t *testing.T) {
	t.Parallel()
	const only = types.CapacityReservationPreferenceCapacityReservationsOnly
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		a.server.Reserve(CapacityReservation{ID: testReservation, Type: "m5.large", Zone: "us-east-1a", Count: 1})
		id := a.standby(1)[0]
		both := toID(testReservation)
		both.CapacityReservationTarget.CapacityReservationResourceGroupArn = aws.String(testReserved)
		for name, c := range map[string]struct {
			wants *types.CapacityReservationSpecification
			code  string
		}{
			"id and group":       {both, codeCombination},
			"open with an id":    {prefers("open", toID(testReservation)), codeCombination},
			"none with a group":  {prefers("none", toGroup(testReserved)), codeCombination},
			"an id of no form":   {toID("cr-x"), "InvalidCapacityReservationId.Malformed"},
			"one that is not":    {toID("cr-0123456789abcdef1"), codeNoReserved},
			"only with an id":    {prefers(only, toID(testReservation)), ""},
			"only with a group":  {prefers(only, toGroup(testReserved)), ""},
			"another preference": {prefers("some"), codeInvalid},
		} {
			if code := codeOf(t, a.reserve(id, c.wants)); code != c.code {
				t.Errorf("%s: %q, want %q", name, code, c.code)
			}
		}
		if err := a.reserve(id, toID(testReservation)); err != nil {
			t.Fatal(err)
		}
		shown := a.get(id).CapacityReservationSpecification
		if target := shown.CapacityReservationTarget; target == nil ||
			aws.ToString(target.CapacityReservationId) != testReservation {
			t.Errorf("shown: %+v", shown)
		}
		if err := a.start(id); err != nil {
			t.Fatal(err)
		}
		if code := codeOf(t, a.reserve(id, prefers("open"))); code != codeState {
			t.Errorf("of an instance that is not stopped: %q", code)
		}
	})
}

// TestPoliciesOfReservations: a call that names a reservation needs a permission for it too.
func TestPoliciesOfReservations(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		a.server.Reserve(CapacityReservation{ID: testReservation, Type: "m5.large", Zone: "us-east-1a", Count: 1})
		id := a.standby(1)[0]
		actions := texts{"ec2:RunInstances", "ec2:ModifyInstanceCapacityReservationAttributes"}
		instances := Statement{Action: actions, Resource: texts{"arn:aws:ec2:us-east-1:123456789012:instance/*"}}
		reservations := Statement{Action: actions, Resource: texts{"arn:aws:ec2:us-east-1:*:capacity-reservation/*",
			"arn:aws:resource-groups:us-east-1:123456789012:group/*"}}
		for want, policy := range map[string]*Policy{
			"":               {Statement: []Statement{instances, reservations}},
			codeUnauthorized: {Statement: []Statement{instances}},
		} {
			a.server.SetPolicy(policy)
			in := runInput()
			in.CapacityReservationSpecification = toGroup(testReserved)
			_, err := a.client.RunInstances(t.Context(), in)
			codes := []string{codeOf(t, err), codeOf(t, a.reserve(id, toID(testReservation))),
				codeOf(t, a.reserve(id, toGroup(testReserved))), codeOf(t, a.reserve(id, prefers("open")))}
			if diff := cmp.Diff([]string{want, want, want, ""}, codes); diff != "" {
				t.Errorf("policy %+v (-want +got):\n%s", policy, diff)
			}
		}
	})
}

// TestLaunchesInReservations: a launch names one too, of which there is one place.
func TestLaunchesInReservations(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		a.server.Reserve(CapacityReservation{ID: testReservation, Type: "m5.large", Zone: "us-east-1a", Count: 1})
		var codes []string
		for range 2 {
			in := runInput()
			in.CapacityReservationSpecification = toID(testReservation)
			_, err := a.client.RunInstances(t.Context(), in)
			codes = append(codes, codeOf(t, err))
		}
		in := runInput()
		in.CapacityReservationSpecification = toID("cr-0123456789abcdef1")
		_, err := a.client.RunInstances(t.Context(), in)
		if diff := cmp.Diff([]string{"", codeReserved, codeNoReserved}, append(codes, codeOf(t, err))); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	})
}
