package limiter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

func newCalls(t *testing.T, l *Limiter) (*Calls, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := NewCalls("fake", l, registry)
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
	return c, registry
}

func TestWhatCameOfACall(t *testing.T) {
	for want, err := range map[string]error{
		"ok":                    nil,
		"throttled":             &provider.RateLimitError{Err: errors.New("RequestLimitExceeded")},
		"not_found":             &provider.InstanceNotFoundError{},
		"insufficient_capacity": &provider.InsufficientCapacityError{Err: errors.New("ICE")},
		"incorrect_state":       &provider.IncorrectStateError{},
		"invalid_config":        &provider.InvalidConfigError{},
		"cancelled":             context.Canceled,
		"error":                 errors.New("EOF"),
	} {
		t.Run(want, func(t *testing.T) {
			c, _ := newCalls(t, New(nil))
			var told error
			c.ReportFailures(func(op Operation, _ time.Duration, err error) {
				if told = err; op != StopInstances {
					t.Errorf("told of a call to %s, want StopInstances", op)
				}
			})
			if got := c.Under(New(nil)).Do(t.Context(), StopInstances, func() error { return err }); !errors.Is(got, err) {
				t.Errorf("error %v, want the call's own %v", got, err)
			}
			if !errors.Is(told, err) {
				t.Errorf("told of %v, want %v", told, err)
			}
			if n := testutil.ToFloat64(c.calls.WithLabelValues("fake", "StopInstances", want)); n != 1 {
				t.Errorf("%v calls counted as %s", n, want)
			}
		})
	}
}

// The wait for the limit and the time of the call are two things: only the second is the cloud's.
func TestWaitIsMeasuredApartFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCalls(t, starts(1, 0.5))
		for range 3 {
			err := c.Do(t.Context(), StartInstances, func() error {
				<-time.After(100 * time.Millisecond)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if waited := testutil.ToFloat64(c.waited.WithLabelValues("fake", "StartInstances")); waited < 3.799 ||
			waited > 3.801 {
			t.Errorf("waited %v s, want 3.8: two tokens of 2 s, less the calls' 0.1 s", waited)
		}
		if sum := latencySum(t, registry); sum < 0.299 || sum > 0.301 {
			t.Errorf("calls took %v s, want 0.3", sum)
		}
	})
}

func latencySum(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "stratos_cloud_provider_latency_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatal("no latency")
	return 0
}

func TestACallWhoseCallerGivesUpIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCalls(t, starts(1, 0.01))
		made := 0
		call := func() error { made++; return nil }
		if err := c.Do(t.Context(), StartInstances, call); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Do(ctx, StartInstances, call); !errors.Is(err, context.DeadlineExceeded) || made != 1 {
			t.Errorf("error %v, %d calls made, want the deadline and 1", err, made)
		}
		if waited := testutil.ToFloat64(c.waited.WithLabelValues("fake", "StartInstances")); waited != 1 {
			t.Errorf("waited %v s, want the 1 s that it did wait", waited)
		}
	})
}

// account is a cloud with EC2's published buckets and stopped instances to start.
func account(t *testing.T, n int) (*fake.Cloud, []string) {
	t.Helper()
	cloud := fake.New(fake.Options{Seed: 1})
	class := &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{InstanceType: "m5.large",
		SubnetIDs: []string{"subnet-1"}}}
	var ids []string
	for i := range n {
		instance, err := cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{ClientToken: strings.Repeat("t",
			i+1)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(instance.ID))
	}
	<-time.After(time.Minute)
	for _, id := range ids {
		if err := cloud.StopInstance(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(time.Minute)
	if err := cloud.SetLimits(t.Context(), fake.PublishedLimits()); err != nil {
		t.Fatal(err)
	}
	return cloud, ids
}

// startAll has the instances started by the replicas in rotation, all asked for at once.
func startAll(t *testing.T, cloud *fake.Cloud, ids []string, replicas []*Calls) (refused int, took time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for i, id := range ids {
		through := Wrap(cloud, replicas[i%len(replicas)])
		wg.Go(func() {
			for {
				err := through.StartInstance(t.Context(), id)
				if err == nil {
					return
				}
				if !provider.IsRateLimit(err) {
					t.Error(err)
					return
				}
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return refused, time.Since(began)
}

// TestTwoReplicasStayWithinTheAccountsBucket: the cloud's bucket checks. Each replica uses half,
// and none of 45 starts is refused; they take as long as the account's bucket demands, and hardly
// longer.
func TestTwoReplicasStayWithinTheAccountsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, ids := account(t, 45)
		var replicas []*Calls
		for range 2 {
			c, _ := newCalls(t, New(map[Operation]Limit{StartInstances: Default()[StartInstances].Share(0.5)}))
			replicas = append(replicas, c)
		}
		refused, took := startAll(t, cloud, ids, replicas)
		if refused > 0 {
			t.Errorf("the cloud refused %d calls", refused)
		}
		// (45 - 5) / 2 a second; rounding a burst down costs up to a second
		if took < 20*time.Second || took > 22*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// TestOneThatTakesTooMuchGivesWay: two replicas each believe to have the whole account. The cloud
// refuses calls, both slow down, and in the end everything has started with few refusals.
func TestOneThatTakesTooMuchGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, ids := account(t, 45)
		var replicas []*Calls
		for range 2 {
			c, _ := newCalls(t, New(map[Operation]Limit{StartInstances: Default()[StartInstances]}))
			replicas = append(replicas, c)
		}
		refused, took := startAll(t, cloud, ids, replicas)
		if refused == 0 || refused > 20 {
			t.Errorf("the cloud refused %d calls, want some and at most 20", refused)
		}
		if took > time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

// TestWrappedCallsCountWhereTheyBelong: each method's call goes to the cloud and counts for its
// operation.
func TestWrappedCallsCountWhereTheyBelong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, ids := account(t, 1)
		c, _ := newCalls(t, New(nil))
		w := Wrap(cloud, c)
		id, ctx := ids[0], t.Context()
		class := &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{InstanceType: "m5.large",
			SubnetIDs: []string{"subnet-1"}}}
		_, launchErr := w.LaunchInstance(ctx, class, provider.LaunchRequest{ClientToken: "another"})
		state, stateErr := w.GetInstanceState(ctx, id)
		instance, getErr := w.GetInstance(ctx, id)
		list, listErr := w.ListInstances(ctx, nil)
		found, resolveErr := w.ResolveNodeClass(ctx, class)
		if found.AMI == "" {
			t.Error("no image was found for the class")
		}
		changer, can := w.(provider.TypeChanger)
		if !can {
			t.Fatal("the wrapped cloud changes no types")
		}
		typeErr := changer.ChangeInstanceType(ctx, id, "m5.xlarge")
		startErr := w.StartInstance(ctx, id)
		<-time.After(time.Minute) // a pending instance cannot be stopped
		err := errors.Join(launchErr, resolveErr, stateErr, getErr, listErr, startErr, typeErr,
			w.UpdateInstanceTags(ctx, id, map[string]string{"a": "b"}),
			w.StopInstance(ctx, id, true), w.TerminateInstance(ctx, id))
		if err != nil || state != provider.InstanceStopped || string(instance.ID) != id || len(list) != 2 {
			t.Errorf("state %s, instance %v, %d listed, %v", state, instance, len(list), err)
		}
		for op, want := range map[Operation]float64{
			RunInstances: 1, StartInstances: 1, StopInstances: 1, TerminateInstances: 1, DescribeInstances: 3, CreateTags: 1,
			ModifyInstanceAttribute: 1, ResolveNodeClass: 1,
		} {
			if got := testutil.ToFloat64(c.calls.WithLabelValues("fake", string(op), "ok")); got != want {
				t.Errorf("%v calls of %s, want %v", got, op, want)
			}
		}
		if state, err := w.GetInstanceState(ctx, "i-none"); state != provider.InstanceUnknown || !provider.IsNotFound(err) {
			t.Errorf("state of an instance that does not exist: %q, %v", state, err)
		}
	})
}

// TestAWrappedCloudChangesTypesWhereItCan: one that cannot does not claim to.
func TestAWrappedCloudChangesTypesWhereItCan(t *testing.T) {
	c, _ := newCalls(t, New(nil))
	type cloud = Cloud[v1alpha1.AWSNodeClass, v1alpha1.AWSNodeClassStatus]
	for can, of := range map[bool]cloud{true: fake.New(fake.Options{}), false: struct{ cloud }{fake.New(fake.Options{})}} {
		if _, is := Wrap(of, c).(provider.TypeChanger); is != can {
			t.Errorf("the wrapped cloud changes types: %v, its cloud: %v", is, can)
		}
	}
}
