package aws

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// warmed puts n instances of the pool into the account, over three zones, without a call, and
// returns their ids in the order of their launch. They run; those of stop are stopped.
func (r *rig) warmed(t *testing.T, n int, tags map[string]string, stop bool) []string {
	t.Helper()
	zones := class().Status.Subnets
	var ids []string
	r.sim.Write(func(b *simcloud.Book) {
		for i := range n {
			at := zones[i%len(zones)]
			inst := b.Launch(simcloud.LaunchSpec{Type: "m5.large", Region: "us-east-1", Zone: at.Zone, Subnet: at.ID,
				Tags: maps.Clone(tags)})
			ids = append(ids, string(inst.ID))
		}
	})
	pass(time.Minute)
	if stop {
		for _, id := range ids {
			if err := r.sim.Behind(t.Context(), id, simcloud.ActStop); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
	}
	return ids
}

// states counts the truth about the instances by state.
func (r *rig) states(t *testing.T, ids []string) map[provider.InstanceState]int {
	t.Helper()
	views, err := r.sim.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[provider.InstanceState]int{}
	for _, v := range views {
		if slices.Contains(ids, string(v.ID)) {
			counts[v.State]++
		}
	}
	return counts
}

// startsAtOnce is a row of the test below.
type startsAtOnce struct {
	// every is the time between two starts that are asked for, callTime what EC2 takes for a call.
	every, callTime time.Duration
	// throttled calls are refused although we keep to the limits.
	throttled int
	// most calls there may be, in addition to what the limits allow.
	most int
}

func (s startsAtOnce) check(t *testing.T, r *rig, ids []string) {
	t.Helper()
	requests := r.requests(ec2test.StartInstances)
	checkRate(t, requests, 5, 2)
	if len(requests) > s.most {
		t.Errorf("%d calls, want at most %d", len(requests), s.most)
	}
	accepted := slices.DeleteFunc(slices.Clone(requests), func(q ec2test.Request) bool { return q.Code != "" })
	if refused := len(requests) - len(accepted); refused != s.throttled {
		t.Errorf("%d calls were refused, want %d", refused, s.throttled)
	}
	if diff := cmp.Diff(ids, order(accepted)); diff != "" {
		t.Errorf("order of the starts (-asked +called):\n%s", diff)
	}
	pass(time.Minute)
	if diff := cmp.Diff(map[provider.InstanceState]int{provider.InstanceRunning: len(ids)}, r.states(t, ids)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestThreeHundredStartsAtOnceInThreeZones: starts go out in the order in which they were asked,
// by a handful of calls, and none fails by a limit, even where others use up the account's.
func TestThreeHundredStartsAtOnceInThreeZones(t *testing.T) {
	t.Parallel()
	const starts = 300
	for name, tt := range map[string]startsAtOnce{
		"all in one instant":             {callTime: 200 * time.Millisecond, most: 2},
		"all in one instant, slow calls": {callTime: 3 * time.Second, most: 2},
		"one after the other, for half a minute": {every: 100 * time.Millisecond, callTime: 50 * time.Millisecond, most: 5 +
			2*31},
		"somebody else empties the bucket": {callTime: 200 * time.Millisecond, throttled: 3, most: 2 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				ids := r.warmed(t, starts, ours("p"), true)
				cloud := r.cloud(t)
				if _, err := cloud.ListInstances(t.Context(), ours("p")); err != nil {
					t.Fatal(err)
				}
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultLatency, Op: simcloud.OpStart, Delay: tt.callTime})
				if tt.throttled > 0 {
					r.fault(t, simcloud.Fault{Kind: simcloud.FaultRateLimit, Op: simcloud.OpStart, Count: tt.throttled})
				}
				results := make(chan error, starts)
				for _, id := range ids {
					go func() { results <- cloud.StartInstance(t.Context(), id) }()
					synctest.Wait() // so that the order in which they ask is known
					if tt.every > 0 {
						pass(tt.every)
					}
				}
				for range starts {
					if err := <-results; err != nil {
						t.Errorf("start: %v", err)
					}
				}
				tt.check(t, r, ids)
			})
		})
	}
}
