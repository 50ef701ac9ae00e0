package aws

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestFiveMinutesWithoutEC2: starts that wait are made when EC2 is back, what runs is left alone, and at no time, least of all in the first
// moments after, is more asked than the limits allow.
func TestFiveMinutesWithoutEC2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		running := r.warmed(t, 20, ours("p"), false)
		standby := r.warmed(t, 60, ours("p"), true)
		cloud := r.cloud(t)
		if _, err := cloud.ListInstances(t.Context(), ours("p")); err != nil {
			t.Fatal(err)
		}
		r.arm(t, simcloud.Fault{Kind: simcloud.FaultOutage})
		began := time.Now()

		stop := make(chan struct{})
		var loops sync.WaitGroup
		failed := r.sweep(t, cloud, stop, &loops)
		var starts sync.WaitGroup
		for _, id := range standby {
			starts.Go(func() { persist(t, cloud, id) })
		}
		lapse(5 * time.Minute)
		if got := r.states(t, standby); got[provider.InstanceStopped] != len(standby) {
			t.Errorf("in the outage: %v", got)
		}
		if err := r.sim.ClearFaults(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		starts.Wait()
		worked := time.Since(back)
		lapse(time.Minute)
		close(stop)
		loops.Wait()

		if worked > time.Minute {
			t.Errorf("the backlog took %s, more than the longest pause and the calls' own rate explain", worked)
		}
		if n := failed(); n == 0 {
			t.Error("no sweep failed, so there was no outage")
		}
		r.checkOutage(t, running, standby, began)
	})
}

// sweep lists every two seconds, as the scaler does while something is in flight, until stop. The result counts the failures.
func (r *rig) sweep(t *testing.T, cloud *Cloud, stop <-chan struct{}, loops *sync.WaitGroup) func() int {
	t.Helper()
	failures := 0
	loops.Go(func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if all, err := cloud.ListInstances(t.Context(), ours("p")); err != nil {
					failures++
					if len(all) > 0 {
						t.Errorf("a partial list of %d", len(all))
					}
				}
			}
		}
	})
	return func() int {
		loops.Wait()
		return failures
	}
}

// persist asks for a start until it is accepted, with the starter's pauses: 100 ms, doubling to 10 s.
func persist(t *testing.T, cloud *Cloud, id string) {
	t.Helper()
	pause := 100 * time.Millisecond
	for cloud.StartInstance(t.Context(), id) != nil {
		timer := time.NewTimer(pause)
		<-timer.C
		pause = min(2*pause, 10*time.Second)
	}
}

func (r *rig) checkOutage(t *testing.T, running, standby []string, began time.Time) {
	t.Helper()
	all := map[provider.InstanceState]int{provider.InstanceRunning: len(running) + len(standby)}
	if diff := cmp.Diff(all, r.states(t, slices.Concat(running, standby))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	views, err := r.sim.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if want := 1 + map[bool]int{true: 1}[slices.Contains(standby, string(v.ID))]; v.Boots != want {
			t.Errorf("instance %s booted %d times, want %d", v.ID, v.Boots, want)
		}
	}
	for action, limit := range map[ec2test.Action]simcloud.Limit{
		ec2test.StartInstances: {Burst: 5, PerSecond: 2}, ec2test.DescribeInstances: {Burst: 20, PerSecond: 20},
	} {
		requests := slices.DeleteFunc(r.requests(action), func(q ec2test.Request) bool { return q.At.Before(began) })
		within(t, requests, limit.Burst, limit.PerSecond)
		for _, q := range requests {
			if q.Code == "RequestLimitExceeded" {
				t.Errorf("a call of %s at %s was throttled", q.Action, q.At.Sub(began))
			}
			if action == ec2test.StartInstances && slices.ContainsFunc(q.Instances, func(id v1alpha1.InstanceID) bool { return slices.Contains(running, string(id)) }) {
				t.Errorf("a start of an instance that runs: %v", q.Instances)
			}
		}
	}
	for _, action := range []ec2test.Action{ec2test.StopInstances, ec2test.TerminateInstances, ec2test.RunInstances, ec2test.CreateTags} {
		if n := len(r.requests(action)); n != 0 {
			t.Errorf("%d calls of %s", n, action)
		}
	}
}
