package aws

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	reservationID = "cr-0123456789abcdef0"
	reservedGroup = "arn:aws:resource-groups:us-east-1:123456789012:group/reserved"
)

// reservationIn is one of an account, for instances of class().
func reservationIn(zone string, n int) ec2test.CapacityReservation {
	return ec2test.CapacityReservation{ID: reservationID, Type: "m5.large", Zone: zone, Count: n, Targeted: true,
		Groups: []string{reservedGroup}}
}

// resolvedTo is the class that wants the reservation, with what EC2 says of it.
func resolvedTo(t *testing.T, c *Cloud, class *v1alpha1.AWSNodeClass,
	want v1alpha1.CapacityReservation) *v1alpha1.AWSNodeClass {
	t.Helper()
	class.Spec.CapacityReservation = &want
	status, err := c.ResolveNodeClass(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	class.Status = status
	return class
}

// TestReservationsOfClasses: what EC2 says of the reservation, and why instances cannot use it.
func TestReservationsOfClasses(t *testing.T) {
	change := func(f func(*ec2test.CapacityReservation)) func(*rig) {
		return func(r *rig) {
			one := reservationIn("us-east-1b", 1)
			f(&one)
			r.server.Reserve(one)
		}
	}
	for name, c := range map[string]struct {
		account func(*rig)
		wrong   string
		ended   bool
	}{
		"active":              {account: change(func(*ec2test.CapacityReservation) {})},
		"shown as pending":    {account: change(func(r *ec2test.CapacityReservation) { r.State = "pending" })},
		"of a fallback type":  {account: change(func(r *ec2test.CapacityReservation) { r.Type = "m6i.large" })},
		"expired":             {account: change(func(r *ec2test.CapacityReservation) { r.State = "expired" }), ended: true},
		"cancelled":           {account: change(func(r *ec2test.CapacityReservation) { r.State = "cancelled" }), ended: true},
		"of a later date":     {account: change(func(r *ec2test.CapacityReservation) { r.State = "scheduled" }), wrong: "is scheduled, not active"},
		"there is none":       {account: func(*rig) {}, wrong: "there is no reservation " + reservationID + " in us-east-1"},
		"a Capacity Block":    {account: change(func(r *ec2test.CapacityReservation) { r.Block = true }), wrong: "Capacity Block"},
		"another tenancy":     {account: change(func(r *ec2test.CapacityReservation) { r.Dedicated = true }), wrong: "has tenancy dedicated"},
		"another platform":    {account: change(func(r *ec2test.CapacityReservation) { r.Platform = "Windows" }), wrong: "is for Windows, and image ami-0123456789abcdef0 is Linux/UNIX"},
		"another type":        {account: change(func(r *ec2test.CapacityReservation) { r.Type = "c5.large" }), wrong: "is for c5.large, which is neither"},
		"a type that is left": {account: change(func(r *ec2test.CapacityReservation) { r.Type = "m7g.large" }), wrong: "is for m7g.large, which is neither"},
		"a zone without subnet": {account: change(func(r *ec2test.CapacityReservation) { r.Zone = "us-east-1d" }),
			wrong: "is in us-east-1d, where the class has no subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, simcloud.Options{})
			c.account(r)
			class := class()
			class.Spec.FallbackInstanceTypes = []string{"m6i.large", "m7g.large"}
			class.Spec.CapacityReservation = &v1alpha1.CapacityReservation{ID: reservationID}
			found, err := r.cloud(t).ResolveNodeClass(t.Context(), class)
			if c.wrong != "" {
				if !provider.IsInvalidConfig(err) || !strings.Contains(err.Error(), c.wrong) ||
					!strings.Contains(err.Error(), fieldReservation) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := found.CapacityReservation
			if s == nil || s.ID != reservationID || s.Zone != "us-east-1b" || s.Ended != c.ended {
				t.Fatalf("status %+v", s)
			}
			if n := len(found.Subnets); c.ended && n != 3 || !c.ended && (n != 1 || found.Subnets[0].Zone != "us-east-1b") {
				t.Errorf("subnets %v", found.Subnets)
			}
		})
	}
}

// TestAReservationThatEC2Forgets has ended for a class that knew it.
func TestAReservationThatEC2Forgets(t *testing.T) {
	r := newRig(t, simcloud.Options{})
	r.server.Reserve(reservationIn("us-east-1b", 1))
	c := r.cloud(t)
	class := resolvedTo(t, c, class(), v1alpha1.CapacityReservation{ID: reservationID})
	r.server.ForgetReservation(reservationID)
	found, err := c.ResolveNodeClass(t.Context(), class)
	want := &v1alpha1.CapacityReservationStatus{ID: reservationID, InstanceType: "m5.large", Zone: "us-east-1b",
		Ended: true}
	if diff := cmp.Diff(want, found.CapacityReservation); diff != "" || err != nil {
		t.Errorf("%v, status (-want +got):\n%s", err, diff)
	}
}

// reservingLaunches are the calls of RunInstances as type@zone, with "reserved" where they name the
// reservation, and a dot where they have a preference.
func (r *rig) reservingLaunches() string {
	requests := r.requests(ec2test.RunInstances)
	calls := r.launches()
	const spec = "CapacityReservationSpecification."
	for n, q := range requests {
		for key, value := range q.Params {
			if strings.HasPrefix(key, spec+"CapacityReservationTarget.") {
				calls[n] += ":reserved"
			} else if strings.HasPrefix(key, spec) {
				calls[n] += ":" + value
			}
		}
		const only = ":capacity-reservations-only"
		calls[n] = strings.ReplaceAll(calls[n], ":reserved"+only, only+":reserved")
	}
	return strings.Join(calls, " ")
}

// TestLaunchesAndReservations: three launches, where the reservation has room for one. The third
// makes no call that the second has shown to be of no use.
func TestLaunchesAndReservations(t *testing.T) {
	const only = ":capacity-reservations-only"
	for name, c := range map[string]struct {
		want     v1alpha1.CapacityReservation
		fallback []string
		dry      bool
		end      bool
		calls    string
		// refused are how many of the launches are, for want of the reservation
		refused int
	}{
		"unset": {calls: "m5.large@a m5.large@a m5.large@a"},
		"none":  {want: v1alpha1.CapacityReservation{Preference: "None"}, calls: "m5.large@a:none m5.large@a:none m5.large@a:none"},
		"an id, then On-Demand": {want: v1alpha1.CapacityReservation{ID: reservationID},
			calls: "m5.large@b:reserved m5.large@b:reserved m5.large@b m5.large@b"},
		"an id, On-Demand dry": {want: v1alpha1.CapacityReservation{ID: reservationID}, fallback: []string{"m6i.large"}, dry: true,
			calls: "m5.large@b:reserved m5.large@b:reserved m5.large@b m6i.large@b m6i.large@b"},
		"an id and nothing else": {want: v1alpha1.CapacityReservation{ID: reservationID, Preference: "Only"},
			fallback: []string{"m6i.large"}, refused: 2,
			calls: "m5.large@b" + only + ":reserved m5.large@b" + only + ":reserved"},
		"a group goes On-Demand by itself": {want: v1alpha1.CapacityReservation{ResourceGroupARN: reservedGroup},
			calls: "m5.large@a:reserved m5.large@a:reserved m5.large@a:reserved"},
		"a group and nothing else": {want: v1alpha1.CapacityReservation{ResourceGroupARN: reservedGroup, Preference: "Only"},
			fallback: []string{"m6i.large"}, refused: 2,
			calls: "m5.large@a" + only + ":reserved m5.large@b" + only + ":reserved" + // the first
				" m5.large@b" + only + ":reserved m5.large@c" + only + ":reserved" +
				" m6i.large@a" + only + ":reserved m6i.large@b" + only + ":reserved m6i.large@c" + only + ":reserved"},
		"one that has ended": {want: v1alpha1.CapacityReservation{ID: reservationID}, end: true,
			calls: "m5.large@a m5.large@a m5.large@a"},
		"one that has ended, and nothing else": {want: v1alpha1.CapacityReservation{ID: reservationID, Preference: "Only"},
			end: true, refused: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				one := reservationIn("us-east-1b", 1)
				if c.end {
					one.State = "expired"
				}
				r.server.Reserve(one)
				cloud := r.cloud(t)
				if c.dry {
					r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Type: "m5.large"})
				}
				class := class()
				class.Spec.FallbackInstanceTypes = c.fallback
				class = resolvedTo(t, cloud, class, c.want)
				refused := 0
				for n := range 3 {
					_, err := cloud.LaunchInstance(t.Context(), class,
						provider.LaunchRequest{ClientToken: "launch-" + string(rune('a'+n)), Tags: ours("p")})
					switch {
					case provider.IsReservation(err):
						refused++
					case err != nil:
						t.Error(err)
					}
				}
				if refused != c.refused {
					t.Errorf("%d launches were refused, want %d", refused, c.refused)
				}
				if diff := cmp.Diff(c.calls, r.reservingLaunches()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestALostLaunchIntoAReservation: it is asked for again under its token, and no other is made
// On-Demand.
func TestALostLaunchIntoAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		r.server.Reserve(reservationIn("us-east-1b", 1))
		cloud := r.cloud(t)
		class := resolvedTo(t, cloud, class(), v1alpha1.CapacityReservation{ID: reservationID})
		req := provider.LaunchRequest{ClientToken: "launch", Tags: ours("p")}
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpLaunch, Count: attempts})
		if _, err := cloud.LaunchInstance(t.Context(), class, req); err == nil {
			t.Fatal("the answer arrived")
		}
		if _, err := cloud.LaunchInstance(t.Context(), class, req); err != nil {
			t.Fatal(err)
		}
		if all, err := cloud.ListInstances(t.Context(), nil); err != nil || len(all) != 1 {
			t.Errorf("%d instances, %v", len(all), err)
		}
	})
}

// TestReservationsOfStoppedInstances: each is shown as it was set, and set again without an effect.
func TestReservationsOfStoppedInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		r.server.Reserve(reservationIn("us-east-1a", 1))
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		for _, want := range []v1alpha1.CapacityReservation{
			{ID: reservationID}, {ID: reservationID, Preference: "Only"}, {ResourceGroupARN: reservedGroup},
			{ResourceGroupARN: reservedGroup, Preference: "Only"}, {Preference: "None"}, {Preference: "Only"}, {},
		} {
			for range 2 {
				if err := c.SetReservation(t.Context(), id, want); err != nil {
					t.Fatalf("%+v: %v", want, err)
				}
			}
			if i, err := c.GetInstance(t.Context(), id); err != nil || i.Reservation != want {
				t.Errorf("it is shown as %+v, %v, want %+v", i.Reservation, err, want)
			}
		}
	})
}

// TestWhatARefusedReservationMeans: each of EC2's codes is the error that provider.Reserver names.
func TestWhatARefusedReservationMeans(t *testing.T) {
	plain := func(err error) bool {
		return err != nil && !provider.IsNotFound(err) && !provider.IsIncorrectState(err) &&
			!provider.IsInvalidConfig(err) && !provider.IsUnauthorized(err) && !provider.IsRateLimit(err)
	}
	for code, is := range map[string]func(error) bool{
		"InvalidCapacityReservationId.NotFound": provider.IsInvalidConfig,
		"ReservationCapacityExceeded":           provider.IsInvalidConfig,
		"InvalidParameterCombination":           provider.IsInvalidConfig,
		"UnauthorizedOperation":                 provider.IsUnauthorized,
		"InvalidInstanceID.NotFound":            provider.IsNotFound,
		"RequestLimitExceeded":                  provider.IsRateLimit,
		"IncorrectInstanceState":                provider.IsIncorrectState,
		"InternalError":                         plain,
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				c := r.cloud(t)
				id := stopped(t, c, 1)[0]
				r.server.Script(ec2test.Failure{Action: ec2test.ModifyInstanceCapacityReservationAttributes,
					Error: ec2test.Error{Code: code, Message: "in EC2's words", Status: http.StatusBadRequest}})
				if err := c.SetReservation(t.Context(), id, v1alpha1.CapacityReservation{ID: reservationID}); !is(err) {
					t.Errorf("%T %v", err, err)
				}
			})
		})
	}
}

// TestStartsOfAFullReservation: the instances that name it are refused, those of the same zone and
// type that do not are started by the same batch.
func TestStartsOfAFullReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		r.server.Reserve(reservationIn("us-east-1a", 1))
		c := r.cloud(t)
		var ids []string
		for n, id := range stopped(t, c, 30) {
			if n%3 == 0 { // those in the first zone
				ids = append(ids, id)
			}
		}
		named := ids[:5]
		for _, id := range named {
			if err := c.SetReservation(t.Context(), id, v1alpha1.CapacityReservation{ID: reservationID}); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		for id, err := range atOnce(ids, func(id string) error { return c.StartInstance(t.Context(), id) }) {
			switch {
			case provider.IsReservation(err) && slices.Contains(named, id):
				refused++
			case err != nil:
				t.Errorf("%s: %v", id, err)
			}
		}
		if refused != len(named)-1 {
			t.Errorf("%d were refused for the reservation, want %d", refused, len(named)-1)
		}
	})
}

// TestAStartWhoseReservationIsNotKnown: AWS documents no code for a target that has ended, so both
// that may be meant are the same.
func TestAStartWhoseReservationIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		r.server.Script(ec2test.Failure{Action: ec2test.StartInstances, Count: 1,
			Error: ec2test.Error{Code: "InvalidCapacityReservationId.NotFound"}})
		if err := c.StartInstance(t.Context(), id); !provider.IsReservation(err) {
			t.Errorf("%T %v", err, err)
		}
	})
}

// TestTheLimitOnReservations: 50 calls at once, and 5 more each second.
func TestTheLimitOnReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		began := time.Now()
		for range 60 {
			if err := c.SetReservation(t.Context(), id, v1alpha1.CapacityReservation{Preference: "None"}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < time.Second || took > 3*time.Second {
			t.Errorf("60 calls took %s", took)
		}
		if n := len(r.requests(ec2test.ModifyInstanceCapacityReservationAttributes)); n != 60 {
			t.Errorf("%d requests: some were refused for their rate", n)
		}
	})
}

// TestADryRunOfAReservation needs the permission and changes nothing.
func TestADryRunOfAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		i, err := c.GetInstance(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		checker := &Checker{cloud: c}
		const op = limiter.ModifyInstanceCapacityReservationAttributes
		if err := checker.Operate(t.Context(), op, i); err != nil {
			t.Error(err)
		}
		r.server.SetPolicy(&ec2test.Policy{})
		if err := checker.Operate(t.Context(), op, i); !provider.IsUnauthorized(err) {
			t.Errorf("without a permission: %v", err)
		}
	})
}
