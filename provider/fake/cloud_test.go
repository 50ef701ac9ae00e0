package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// account is a cloud in a synctest bubble.
type account struct {
	t     *testing.T
	cloud *Cloud
	class *v1alpha1.AWSNodeClass
}

func inCloud(t *testing.T, o Options, f func(*testing.T, *account)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &account{t: t, cloud: New(o), class: nodeClass("m5.large")})
	})
}

func (a *account) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the synctest bubble moves, no time passes
	synctest.Wait()
}

func (a *account) launch() *provider.Instance {
	a.t.Helper()
	return a.launchNumber(0)
}

func (a *account) launchNumber(number int64) *provider.Instance {
	a.t.Helper()
	instance, err := a.cloud.LaunchInstance(a.t.Context(), a.class, provider.LaunchRequest{Number: number})
	if err != nil {
		a.t.Fatal(err)
	}
	return instance
}

// standby launches an instance and stops it.
func (a *account) standby() *provider.Instance {
	a.t.Helper()
	instance := a.launch()
	a.after(4 * time.Second)
	a.must(a.cloud.StopInstance(a.t.Context(), string(instance.ID), false))
	a.after(2 * time.Second)
	a.is(instance, provider.InstanceStopped)
	return instance
}

func (a *account) start(i *provider.Instance) error {
	return a.cloud.StartInstance(a.t.Context(), string(i.ID))
}

func (a *account) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *account) arm(f Fault) {
	a.t.Helper()
	_, err := a.cloud.AddFault(a.t.Context(), f)
	a.must(err)
}

func (a *account) is(i *provider.Instance, want provider.InstanceState) {
	a.t.Helper()
	got, err := a.cloud.GetInstanceState(a.t.Context(), string(i.ID))
	if err != nil || got != want {
		a.t.Errorf("instance is %s (error %v), want %s", got, err, want)
	}
}

func TestTimesOfALife(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		instance := a.launch()
		a.after(999 * time.Millisecond)
		a.is(instance, provider.InstancePending)
		a.after(time.Millisecond)
		a.is(instance, provider.InstanceRunning)
		a.must(a.cloud.StopInstance(t.Context(), string(instance.ID), false))
		a.after(999 * time.Millisecond)
		a.is(instance, provider.InstanceStopping)
		a.after(time.Millisecond)
		a.is(instance, provider.InstanceStopped)
		a.must(a.cloud.TerminateInstance(t.Context(), string(instance.ID)))
		a.after(999 * time.Millisecond)
		a.is(instance, provider.InstanceShuttingDown)
		a.after(time.Millisecond)
		a.is(instance, provider.InstanceTerminated)
		a.after(time.Minute)
		if _, err := a.cloud.GetInstance(t.Context(), string(instance.ID)); !provider.IsNotFound(err) {
			t.Errorf("after the retention: %v, want not found", err)
		}
	})
}

// TestAPendingInstanceIsNotStopped: EC2 refuses it, with force too.
func TestAPendingInstanceIsNotStopped(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{Times: Times{Boot: time.Minute}}, func(t *testing.T, a *account) {
		instance := a.launch()
		for _, force := range []bool{false, true} {
			err := a.cloud.StopInstance(t.Context(), string(instance.ID), force)
			if !provider.IsIncorrectState(err) {
				t.Errorf("stop with force %v while pending: %v", force, err)
			}
		}
		a.after(time.Hour)
		a.is(instance, provider.InstanceRunning)
	})
}

func TestReadsLagBehindWrites(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{Times: Times{Lag: 10 * time.Second}}, func(t *testing.T, a *account) {
		a.class.Spec.Tags = map[string]string{"v": "1"}
		instance := a.launch()
		a.after(9 * time.Second)
		if _, err := a.cloud.GetInstance(t.Context(), string(instance.ID)); !provider.IsNotFound(err) {
			t.Errorf("within the lag a launch shows: %v", err)
		}
		list, err := a.cloud.ListInstances(t.Context(), nil)
		if err != nil || len(list) != 0 {
			t.Errorf("within the lag the list holds %d, error %v", len(list), err)
		}
		a.after(time.Second)
		a.is(instance, provider.InstancePending)
		a.after(time.Second)
		a.is(instance, provider.InstanceRunning)
		a.must(a.cloud.UpdateInstanceTags(t.Context(), string(instance.ID), map[string]string{"v": "2"}))
		got, err := a.cloud.GetInstance(t.Context(), string(instance.ID))
		a.must(err)
		if got.Tags["v"] != "1" {
			t.Errorf("within the lag the new tag shows")
		}
		a.must(a.cloud.StopInstance(t.Context(), string(instance.ID), false))
		a.after(5 * time.Second)
		a.is(instance, provider.InstanceRunning)
		// Writes do not lag: the instance is stopped, so it starts.
		a.must(a.start(instance))
		a.must(a.cloud.Behind(t.Context(), string(instance.ID), ActVanish))
		if err := a.start(instance); !provider.IsNotFound(err) {
			t.Errorf("start of a vanished instance: %v", err)
		}
		a.after(9 * time.Second)
		if _, err := a.cloud.GetInstance(t.Context(), string(instance.ID)); err != nil {
			t.Errorf("within the lag the vanished instance is gone: %v", err)
		}
		a.after(time.Second)
		if _, err := a.cloud.GetInstance(t.Context(), string(instance.ID)); !provider.IsNotFound(err) {
			t.Errorf("after the lag the vanished instance shows: %v", err)
		}
	})
}

func TestFaultsOfCalls(t *testing.T) {
	t.Parallel()
	typed := map[FaultKind]func(error) bool{
		FaultInsufficientCapacity: provider.IsInsufficientCapacity,
		FaultRateLimit:            provider.IsRateLimit,
		FaultIncorrectState:       provider.IsIncorrectState,
		FaultNotFound:             provider.IsNotFound,
		FaultInvalidConfig:        provider.IsInvalidConfig,
		FaultOutage:               func(err error) bool { return errors.Is(err, ErrUnavailable) },
		FaultLostAnswer:           func(err error) bool { return errors.Is(err, ErrUnavailable) },
	}
	for kind, is := range typed {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			inCloud(t, Options{}, func(t *testing.T, a *account) {
				struck, spared := a.standby(), a.standby()
				a.arm(Fault{Kind: kind, Op: OpStart, Instance: struck.ID, Skip: 0, Count: 1})
				a.must(a.start(spared))
				if err := a.start(struck); !is(err) {
					t.Errorf("the struck start: %v", err)
				}
				want := provider.InstanceStopped
				if kind == FaultLostAnswer {
					want = provider.InstancePending
				}
				a.is(struck, want)
				a.must(a.start(struck))
				a.is(struck, provider.InstancePending)
			})
		})
	}
}

func TestFaultsSkipAndCount(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		a.arm(Fault{Kind: FaultRateLimit, Op: OpList, Skip: 2, Count: 3})
		var got []bool
		for range 7 {
			_, err := a.cloud.ListInstances(t.Context(), nil)
			got = append(got, err != nil)
		}
		if diff := cmp.Diff([]bool{false, false, true, true, true, false, false}, got); diff != "" {
			t.Errorf("which calls failed (-want +got):\n%s", diff)
		}
	})
}

func TestFaultsWithProbabilityRepeatWithTheSeed(t *testing.T) {
	t.Parallel()
	draw := func() []bool {
		cloud := New(Options{Seed: 7})
		if _, err := cloud.AddFault(t.Context(), Fault{Kind: FaultOutage, Probability: 0.5}); err != nil {
			t.Fatal(err)
		}
		var failed []bool
		for range 100 {
			_, err := cloud.ListInstances(t.Context(), nil)
			failed = append(failed, err != nil)
		}
		return failed
	}
	first := draw()
	if diff := cmp.Diff(first, draw()); diff != "" {
		t.Errorf("equal seeds differ:\n%s", diff)
	}
	n := 0
	for _, failed := range first {
		if failed {
			n++
		}
	}
	if n < 30 || n > 70 {
		t.Errorf("%d of 100 calls failed, want about half", n)
	}
}

func TestAStartThatFallsBack(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		instance := a.standby()
		a.arm(Fault{Kind: FaultStartFallsBack, Count: 1, Reason: "Client.VolumeLimitExceeded"})
		a.must(a.start(instance))
		a.is(instance, provider.InstancePending)
		a.after(time.Hour)
		a.is(instance, provider.InstanceStopped)
		got, err := a.cloud.GetInstance(t.Context(), string(instance.ID))
		a.must(err)
		if got.StateReason != "Client.VolumeLimitExceeded" {
			t.Errorf("state reason %q", got.StateReason)
		}
		a.must(a.start(instance))
		a.after(time.Hour)
		a.is(instance, provider.InstanceRunning)
		a.arm(Fault{Kind: FaultStartFallsBack, Op: OpLaunch})
		launched := a.launch()
		a.after(2 * time.Second)
		a.is(launched, provider.InstanceTerminated)
	})
}

func TestAStopThatHangs(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*account, *provider.Instance){
		"until force": func(a *account, i *provider.Instance) {
			a.must(a.cloud.StopInstance(a.t.Context(), string(i.ID), false))
			a.after(time.Hour)
			a.is(i, provider.InstanceStopping)
			a.must(a.cloud.StopInstance(a.t.Context(), string(i.ID), true))
		},
		"until the faults are cleared": func(a *account, _ *provider.Instance) { a.must(a.cloud.ClearFaults(a.t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCloud(t, Options{}, func(t *testing.T, a *account) {
				instance := a.launch()
				a.after(5 * time.Second)
				a.arm(Fault{Kind: FaultStopHangs})
				a.must(a.cloud.StopInstance(t.Context(), string(instance.ID), false))
				a.after(time.Hour)
				a.is(instance, provider.InstanceStopping)
				if err := a.start(instance); !provider.IsIncorrectState(err) {
					t.Errorf("start while stopping: %v", err)
				}
				free(a, instance)
				a.after(2 * time.Second)
				a.is(instance, provider.InstanceStopped)
			})
		})
	}
}

func TestCapacityCountsWhatHasPower(t *testing.T) {
	t.Parallel()
	o := Options{Zones: 1, Capacity: []Capacity{{Zone: "us-east-1a", Type: "m5.large", Count: 2},
		{Zone: "*", Type: "c5.large", Count: 0}}}
	inCloud(t, o, func(t *testing.T, a *account) {
		first, second := a.standby(), a.standby()
		third := a.launch()
		a.must(a.start(first))
		if err := a.start(second); !provider.IsInsufficientCapacity(err) {
			t.Errorf("the third with power: %v", err)
		}
		if _, err := a.cloud.LaunchInstance(t.Context(), a.class,
			provider.LaunchRequest{}); !provider.IsInsufficientCapacity(err) {
			t.Errorf("a launch beyond capacity: %v", err)
		}
		if _, err := a.cloud.LaunchInstance(t.Context(), nodeClass("c5.large"),
			provider.LaunchRequest{}); !provider.IsInsufficientCapacity(err) {
			t.Errorf("a launch of a type without capacity: %v", err)
		}
		a.must(a.cloud.TerminateInstance(t.Context(), string(third.ID)))
		a.must(a.start(second))
	})
}

func TestLaunchesGoRoundZonesAndAroundFullOnes(t *testing.T) {
	t.Parallel()
	zones := func(a *account, n int) []string {
		var got []string
		for n := range int64(n) {
			// The launches of the other pool have the same numbers and change nothing.
			a.launch()
			got = append(got, strings.TrimPrefix(a.launchNumber(n).Zone, "us-east-1"))
		}
		return got
	}
	for name, c := range map[string]struct {
		o       Options
		subnets []string
		fault   *Fault
		want    []string
	}{
		"one subnet per zone by default": {want: []string{"a", "b", "c", "a"}},
		"two subnets":                    {subnets: []string{"s1", "s2"}, want: []string{"a", "b", "a", "b"}},
		"a zone out of capacity": {o: Options{Capacity: []Capacity{{Zone: "us-east-1b", Type: "*", Count: 0}}},
			want: []string{"a", "c", "c", "a"}},
		"a subnet out of addresses": {o: Options{SubnetAddresses: map[string]int{"s1": 2}}, subnets: []string{"s1", "s2"},
			want: []string{"a", "b", "b", "b"}},
		"a fault in one zone": {fault: &Fault{Kind: FaultInsufficientCapacity, Zone: "us-east-1a"},
			want: []string{"b", "b", "c", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCloud(t, c.o, func(t *testing.T, a *account) {
				a.class.Spec.SubnetIDs = c.subnets
				if c.fault != nil {
					a.arm(*c.fault)
				}
				if diff := cmp.Diff(c.want, zones(a, len(c.want))); diff != "" {
					t.Errorf("zones (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLaunchIntoANamedZone(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		for range 3 {
			got, err := a.cloud.LaunchInstance(t.Context(), a.class, provider.LaunchRequest{Zone: "us-east-1c"})
			a.must(err)
			if got.Zone != "us-east-1c" {
				t.Errorf("launched into %s", got.Zone)
			}
		}
		if _, err := a.cloud.LaunchInstance(t.Context(), a.class,
			provider.LaunchRequest{Zone: "eu-west-1a"}); !provider.IsInvalidConfig(err) {
			t.Errorf("a zone without subnet: %v", err)
		}
		if _, err := a.cloud.LaunchInstance(t.Context(), nodeClass("m99.huge"),
			provider.LaunchRequest{}); !provider.IsInvalidConfig(err) {
			t.Errorf("an unknown type: %v", err)
		}
		if _, err := a.cloud.LaunchInstance(t.Context(), nil, provider.LaunchRequest{}); !provider.IsInvalidConfig(err) {
			t.Errorf("no class: %v", err)
		}
	})
}

func TestClientTokens(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		req := provider.LaunchRequest{ClientToken: "x", Tags: map[string]string{"a": "b"}}
		first, err := a.cloud.LaunchInstance(t.Context(), a.class, req)
		a.must(err)
		other := req
		other.Tags = map[string]string{"a": "c"}
		if _, err := a.cloud.LaunchInstance(t.Context(), a.class, other); !provider.IsInvalidConfig(err) {
			t.Errorf("the token with other parameters: %v", err)
		}
		a.must(a.cloud.Behind(t.Context(), string(first.ID), ActVanish))
		a.after(2 * time.Minute)
		again, err := a.cloud.LaunchInstance(t.Context(), a.class, req)
		a.must(err)
		if again.ID != first.ID || again.State != provider.InstanceTerminated {
			t.Errorf("the token of a vanished instance returns %s %s, want %s terminated", again.ID, again.State, first.ID)
		}
		// A launch whose answer was lost is found by its token.
		a.arm(Fault{Kind: FaultLostAnswer, Op: OpLaunch, Count: 1})
		req.ClientToken = "y"
		if _, err := a.cloud.LaunchInstance(t.Context(), a.class, req); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("lost answer: %v", err)
		}
		_, err = a.cloud.LaunchInstance(t.Context(), a.class, req)
		a.must(err)
		list, err := a.cloud.ListInstances(t.Context(), nil)
		if err != nil || len(list) != 1 {
			t.Errorf("%d instances, error %v, want 1", len(list), err)
		}
	})
}

func TestManagedTagsWinOverTheClass(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		a.class.Spec.Tags = map[string]string{"team": "a", v1alpha1.TagManagedBy: "someone"}
		got, err := a.cloud.LaunchInstance(t.Context(), a.class,
			provider.LaunchRequest{Tags: map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos}})
		a.must(err)
		want := map[string]string{"team": "a", v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos}
		if diff := cmp.Diff(want, got.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})
}

func TestRateLimitsAreTokenBuckets(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{Limits: PublishedLimits()}, func(t *testing.T, a *account) {
		instance := a.launch()
		passed := func() int {
			n := 0
			for range 20 {
				switch err := a.start(instance); {
				case err == nil:
					n++
				case !provider.IsRateLimit(err):
					t.Errorf("start: %v", err)
				}
			}
			return n
		}
		if got := passed(); got != 5 {
			t.Errorf("%d starts at once, want 5", got)
		}
		a.after(1500 * time.Millisecond)
		if got := passed(); got != 3 {
			t.Errorf("%d starts after 1.5 s, want 3", got)
		}
		a.must(a.cloud.SetLimits(t.Context(), nil))
		if got := passed(); got != 20 {
			t.Errorf("%d starts without limits, want 20", got)
		}
	})
}

func TestLatencyHonoursTheContext(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		instance := a.standby()
		a.arm(Fault{Kind: FaultLatency, Op: OpStart, Delay: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		begun := time.Now()
		if err := a.cloud.StartInstance(ctx, string(instance.ID)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("start: %v", err)
		}
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("the call took %v, want 4s", took)
		}
		a.is(instance, provider.InstanceStopped)
		a.must(a.start(instance))
		if took := time.Since(begun); took != 14*time.Second {
			t.Errorf("both calls took %v, want 14s", took)
		}
	})
}

func TestCallsAreLogged(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		begun := time.Now()
		instance := a.launch()
		a.after(2 * time.Second)
		a.must(a.cloud.StopInstance(t.Context(), string(instance.ID), true))
		failed := a.start(instance)
		a.must(a.cloud.Behind(t.Context(), string(instance.ID), ActTerminate))
		got, err := a.cloud.Calls(t.Context())
		a.must(err)
		want := []Call{
			{Seq: 1, At: begun, Op: OpLaunch, Instance: instance.ID},
			{Seq: 2, At: begun.Add(2 * time.Second), Op: OpStop, Instance: instance.ID, Force: true},
			{Seq: 3, At: begun.Add(2 * time.Second), Op: OpStart, Instance: instance.ID, Err: failed.Error()},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if n := CountCalls(got)[OpStart]; n != 1 {
			t.Errorf("%d starts counted", n)
		}
	})
}

func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	cloud := New(Options{})
	for range simcloud.MaxCalls + simcloud.MaxCalls/5 {
		_, _ = cloud.GetInstanceState(t.Context(), "")
	}
	calls, err := cloud.Calls(t.Context())
	if err != nil || len(calls) > simcloud.MaxCalls || len(calls) < simcloud.MaxCalls*8/10 {
		t.Fatalf("%d calls kept, error %v", len(calls), err)
	}
	if last := calls[len(calls)-1].Seq; last != simcloud.MaxCalls+simcloud.MaxCalls/5 {
		t.Errorf("the last call has number %d", last)
	}
	if !slices.IsSortedFunc(calls, func(a, b Call) int { return int(a.Seq - b.Seq) }) {
		t.Error("the log is out of order")
	}
}

func TestActionsBehindStratosBack(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		a.arm(Fault{Kind: FaultOutage, Count: 0, Op: OpStart})
		instance := a.standby()
		behind := func(action Action) { a.must(a.cloud.Behind(t.Context(), string(instance.ID), action)) }
		behind(ActStart)
		a.after(2 * time.Second)
		a.is(instance, provider.InstanceRunning)
		behind(ActReboot)
		a.is(instance, provider.InstanceRunning)
		behind(ActStop)
		a.after(2 * time.Second)
		a.is(instance, provider.InstanceStopped)
		if err := a.cloud.Behind(t.Context(), string(instance.ID), ActReboot); !provider.IsIncorrectState(err) {
			t.Errorf("reboot of a stopped instance: %v", err)
		}
		behind(ActAge)
		got, err := a.cloud.GetInstance(t.Context(), string(instance.ID))
		a.must(err)
		if older := instance.LaunchTime.Sub(got.LaunchTime); older != 24*time.Hour {
			t.Errorf("launched %s earlier, want a day", older)
		}
		behind(ActTerminate)
		a.is(instance, provider.InstanceShuttingDown)
		a.after(time.Second)
		a.is(instance, provider.InstanceTerminated)
		if err := a.cloud.Behind(t.Context(), "i-none", ActStop); !provider.IsNotFound(err) {
			t.Errorf("unknown instance: %v", err)
		}
		if err := a.cloud.Behind(t.Context(), string(instance.ID), "explode"); !provider.IsInvalidConfig(err) {
			t.Errorf("unknown action: %v", err)
		}
	})
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{Seed: 3}, func(t *testing.T, a *account) {
		ids, names := map[v1alpha1.InstanceID]bool{}, map[string]bool{}
		for range 2000 {
			i := a.launch()
			ids[i.ID], names[i.PrivateDNSName] = true, true
		}
		if len(ids) != 2000 || len(names) != 2000 {
			t.Errorf("%d ids and %d names of 2000 instances", len(ids), len(names))
		}
	})
}

func TestResolveNodeClass(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		a.class.Spec.SubnetIDs = []string{"s1", "s2"}
		got, err := a.cloud.ResolveNodeClass(t.Context(), a.class)
		a.must(err)
		want := []v1alpha1.ResolvedSubnet{{ID: "s1", Zone: "us-east-1a"}, {ID: "s2", Zone: "us-east-1b"}}
		if diff := cmp.Diff(want, got.Subnets); diff != "" {
			t.Errorf("subnets (-want +got):\n%s", diff)
		}
		if got.Capacity.Cpu().Value() != 2 || got.Capacity.Memory().Value() != 8<<30 || got.AMI == "" {
			t.Errorf("resolved to %+v", got)
		}
		if _, err := a.cloud.ResolveNodeClass(t.Context(), nodeClass("x")); !provider.IsInvalidConfig(err) {
			t.Errorf("unknown type: %v", err)
		}
	})
}

// TestNodeImageIsRefused: the fake cloud has no image that the control plane could name.
func TestNodeImageIsRefused(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		class := nodeClass("m5.large")
		class.Spec.NodeImage = &v1alpha1.NodeImage{FromCluster: true}
		_, resolveErr := a.cloud.ResolveNodeClass(t.Context(), class)
		_, launchErr := a.cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{})
		for _, err := range []error{resolveErr, launchErr} {
			if !provider.IsInvalidConfig(err) || !strings.Contains(err.Error(), "spec.nodeImage") {
				t.Errorf("%v, want spec.nodeImage refused", err)
			}
		}
	})
}

// TestAClassWithBootstrap resolves to a simulated cluster, and its machines get the user data that
// Stratos writes, the same for a launch that is repeated.
func TestAClassWithBootstrap(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		class := nodeClass("m5.large")
		class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: v1alpha1.FamilyAL2023, MaxPods: new(int32(12)),
			Cluster: v1alpha1.BootstrapCluster{Name: "mine"}}
		got, err := a.cloud.ResolveNodeClass(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		want := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: v1alpha1.BootstrapCluster{Name: "mine",
			Endpoint: simcloud.ClusterEndpoint, CertificateAuthority: simcloud.ClusterCA(),
			ServiceCIDR: simcloud.ClusterServiceCIDR}}
		pods := got.Capacity[corev1.ResourcePods]
		if diff := cmp.Diff(want, got.Bootstrap); diff != "" || pods.Value() != 12 {
			t.Errorf("%s pods, status.bootstrap (-want +got):\n%s", pods.String(), diff)
		}
		req := provider.LaunchRequest{ClientToken: "a", Registration: provider.Registration{
			StartupTaints: []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}}}
		first, err := a.cloud.LaunchInstance(t.Context(), class, req)
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.cloud.LaunchInstance(t.Context(), class, req)
		if err != nil || again.ID != first.ID {
			t.Errorf("repeated: %v, %v", again, err)
		}
		req.Registration = provider.Registration{}
		if _, err := a.cloud.LaunchInstance(t.Context(), class, req); !provider.IsInvalidConfig(err) {
			t.Errorf("the same token with other user data: %v", err)
		}
		class.Spec.Bootstrap.Cluster.Endpoint = "http://insecure"
		if _, err := a.cloud.ResolveNodeClass(t.Context(), class); !provider.IsInvalidConfig(err) {
			t.Errorf("an endpoint without https: %v", err)
		}
	})
}

func TestParsing(t *testing.T) {
	t.Parallel()
	types, err := ParseTypes(" small=cpu:4,memory:16Gi,pods:10,example.com/gpu:1 ; big=cpu:64,memory:1Ti;")
	if err != nil || len(types) != 2 {
		t.Fatalf("%v, error %v", types, err)
	}
	gpu := types[0].Capacity["example.com/gpu"]
	if types[0].Name != "small" || types[0].Capacity.Pods().Value() != 10 || gpu.Value() != 1 ||
		types[1].Capacity.Pods().Value() != 110 {
		t.Errorf("types: %v", types)
	}
	for _, bad := range []string{"small", "=cpu:1,memory:1Gi", "a=cpu:1", "a=memory:1Gi", "a=cpu:x,memory:1Gi",
		"a=cpu,memory:1Gi", "a=cpu:-1,memory:1Gi"} {
		if got, err := ParseTypes(bad); err == nil {
			t.Errorf("ParseTypes(%q) = %v, want an error", bad, got)
		}
	}
	capacity, err := ParseCapacity("us-east-1a/m5.large=3; */c5.large=0")
	want := []Capacity{{Zone: "us-east-1a", Type: "m5.large", Count: 3}, {Zone: "*", Type: "c5.large", Count: 0}}
	if diff := cmp.Diff(want, capacity); diff != "" || err != nil {
		t.Errorf("capacity (-want +got), error %v:\n%s", err, diff)
	}
	for _, bad := range []string{"m5.large=3", "a/b=x", "a/b", "/b=1", "a/=1", "a/b=-1"} {
		if got, err := ParseCapacity(bad); err == nil {
			t.Errorf("ParseCapacity(%q) = %v, want an error", bad, got)
		}
	}
}

func TestReadScript(t *testing.T) {
	t.Parallel()
	for text, powersOff := range map[string]bool{
		"#!/bin/bash\nsleep 30\npoweroff\n":     true,
		"shutdown -h now":                       true,
		"sleep 1; systemctl poweroff":           true,
		"/sbin/halt && echo done":               true,
		"# poweroff when done\nsleep 1":         false,
		"shutdown -r now":                       false,
		"echo no-poweroff-here":                 false,
		"systemctl restart kubelet":             false,
		"":                                      false,
		"until ready; do sleep 1; done; (halt)": true,
	} {
		if got := readScript(text).powersOff; got != powersOff {
			t.Errorf("%q powers off: %v, want %v", text, got, powersOff)
		}
	}
	s := readScript(`--kubelet-extra-args "--node-labels=a=b,c= --register-with-taints=x=y:NoSchedule,z:NoExecute"`)
	if diff := cmp.Diff(map[string]string{"a": "b", "c": ""}, s.labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(s.taints[0].ToString(), " ", s.taints[1].ToString()); got != "x=y:NoSchedule z:NoExecute" {
		t.Errorf("taints %s", got)
	}
}
