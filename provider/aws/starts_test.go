package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// answered is what became of one call, and when.
type answered struct {
	err error
	at  time.Time
}

// startInOrder asks for the starts one after the other, without waiting for any, and returns what
// became of each.
func startInOrder(t *testing.T, c *Cloud, ids []string) map[string]answered {
	t.Helper()
	results := make(chan func(map[string]answered), len(ids))
	for _, id := range ids {
		go func() {
			err := c.StartInstance(t.Context(), id)
			at := time.Now()
			results <- func(all map[string]answered) { all[id] = answered{err, at} }
		}()
		synctest.Wait()
	}
	all := map[string]answered{}
	for range ids {
		(<-results)(all)
	}
	return all
}

const latency = 150 * time.Millisecond

// slowStarts makes each StartInstances call take a while, so that others gather behind it.
func (r *rig) slowStarts(t *testing.T) {
	t.Helper()
	r.fault(t, simcloud.Fault{Kind: simcloud.FaultLatency, Op: simcloud.OpStart, Delay: latency})
}

// order returns the instances in the order in which calls named them.
func order(requests []ec2test.Request) []string {
	var ids []string
	for _, q := range requests {
		for _, id := range q.Instances {
			ids = append(ids, string(id))
		}
	}
	return ids
}

func TestThreeHundredStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 300)
		r.slowStarts(t)
		before := len(r.requests(ec2test.StartInstances))
		for id, a := range startInOrder(t, c, ids) {
			if a.err != nil {
				t.Errorf("start of %s: %v", id, a.err)
			}
		}
		calls := r.requests(ec2test.StartInstances)[before:]
		took := calls[len(calls)-1].At.Sub(calls[0].At)
		if most := 5 + 2*took.Seconds(); float64(len(calls)) > most || len(calls) > 5 {
			t.Errorf("%d calls within %s, want at most %.1f, and for so few instances at most 5", len(calls), took, most)
		}
		if got := order(calls); !slices.Equal(got, ids) {
			t.Errorf("%d instances were started in another order than the %d that were asked for", len(got), len(ids))
		}
		for _, q := range calls {
			if q.Code != "" {
				t.Errorf("a call of %d instances was refused: %s", len(q.Instances), q.Code)
			}
		}
		if len(calls[0].Instances) != 1 {
			t.Errorf("the first call has %d instances: it waited for others", len(calls[0].Instances))
		}
		await(t, c, provider.InstanceRunning, ids...)
	})
}

// TestBurstsStayWithinThePublishedRate: starts that keep coming for a minute use what EC2 gives and
// no more, and none is refused for its rate.
func TestBurstsStayWithinThePublishedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 200)
		before := len(r.requests(ec2test.StartInstances))
		results := make(chan error, len(ids))
		for _, id := range ids {
			go func() { results <- c.StartInstance(t.Context(), id) }()
			pass(50 * time.Millisecond)
		}
		for range ids {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		calls := r.requests(ec2test.StartInstances)[before:]
		for i, first := range calls {
			for j, last := range calls[i:] {
				if span := last.At.Sub(first.At); float64(j+1) > 5+2*span.Seconds()+1e-6 {
					t.Fatalf("%d calls within %s", j+1, span)
				}
			}
		}
		if slices.ContainsFunc(calls, func(q ec2test.Request) bool { return q.Code != "" }) {
			t.Error("a call was refused")
		}
	})
}

// TestOneOfFiftyWithoutCapacity goes through all positions of the one that cannot start. Under the
// race detector it goes through some.
func TestOneOfFiftyWithoutCapacity(t *testing.T) {
	for name, zone := range map[string]string{"in three zones": "", "in one zone": "us-east-1b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				c := r.cloud(t, func(o *Options) { o.Limits, o.Resources = nil, nil })
				ids := stoppedIn(t, c, zone, 51)
				opener, ids := ids[0], ids[1:]
				for position := 0; position < len(ids); position += stride {
					r.oneWithoutCapacity(t, c, opener, ids, ids[position])
					pass(time.Minute) // a pending instance cannot be stopped
					for id, err := range atOnce(append([]string{opener}, ids...),
						func(id string) error { return c.StopInstance(t.Context(), id, true) }) {
						if err != nil {
							t.Fatalf("stop of %s: %v", id, err)
						}
					}
					await(t, c, provider.InstanceStopped, append([]string{opener}, ids...)...)
				}
			})
		})
	}
}

// oneWithoutCapacity starts the opener, behind whose call the others gather.
func (r *rig) oneWithoutCapacity(t *testing.T, c *Cloud, opener string, ids []string, bad string) {
	t.Helper()
	defer r.heal(t)
	r.slowStarts(t)
	r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpStart,
		Instance: v1alpha1.InstanceID(bad)})
	before := len(r.requests(ec2test.StartInstances))
	results := startInOrder(t, c, append([]string{opener}, ids...))
	calls := r.requests(ec2test.StartInstances)[before:]
	if further := len(calls) - 2; len(calls[1].Instances) != len(ids) || further > 12 {
		t.Errorf("%d instances in one call, then %d further calls; want %d and at most 12", len(calls[1].Instances), further,
			len(ids))
	}
	for id, a := range results {
		switch {
		case id == bad && (!provider.IsInsufficientCapacity(a.err) || !strings.Contains(a.err.Error(),
			"InsufficientInstanceCapacity")):
			t.Errorf("start of the one without capacity: %v", a.err)
		case id != bad && a.err != nil:
			t.Errorf("start of %s beside it: %v", id, a.err)
		}
	}
	for _, q := range calls {
		if slices.Contains(q.Instances, v1alpha1.InstanceID(bad)) && !q.At.Before(results[bad].at) {
			t.Error("it was tried again when it was known to be bad")
		}
	}
	if known := isolated(calls, results, bad); results[bad].at.After(known) {
		t.Errorf("its caller heard of it %s after it was known", results[bad].at.Sub(known))
	}
	if last := calls[len(calls)-1]; last.Code == "" && slices.Equal(last.Instances,
		[]v1alpha1.InstanceID{v1alpha1.InstanceID(bad)}) {
		t.Error("it started")
	}
}

// isolated is when it was known that the refusals were about the bad one: all others of the
// smallest refused call with it were accepted, or there were none.
func isolated(calls []ec2test.Request, results map[string]answered, bad string) time.Time {
	var known time.Time
	smallest := len(results) + 1
	for _, q := range calls {
		if q.Code == "" || len(q.Instances) >= smallest || !slices.Contains(q.Instances, v1alpha1.InstanceID(bad)) {
			continue
		}
		smallest, known = len(q.Instances), q.At.Add(latency)
		for _, id := range q.Instances {
			if other := results[string(id)]; string(id) != bad && other.at.After(known) {
				known = other.at
			}
		}
	}
	return known
}

// stoppedIn is stopped in one zone, or round all for none.
func stoppedIn(t *testing.T, c *Cloud, zone string, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: fmt.Sprint("token", i),
			Number: int64(i), Zone: zone, Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(instance.ID))
	}
	await(t, c, provider.InstanceRunning, ids...)
	for id, err := range atOnce(ids, func(id string) error { return c.StopInstance(t.Context(), id, false) }) {
		if err != nil {
			t.Fatalf("stop of %s: %v", id, err)
		}
	}
	await(t, c, provider.InstanceStopped, ids...)
	return ids
}

// TestAZoneThatIsOut: the other zones start, and the starts of the zone that is out come back after
// few calls, not one for each.
func TestAZoneThatIsOut(t *testing.T) {
	for name, room := range map[string]int{"nothing left": 0, "room for seven": 7} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				c := r.cloud(t)
				ids := stopped(t, c, 60)
				if err := r.sim.SetCapacity(t.Context(), []simcloud.Capacity{{Zone: "us-east-1a", Type: "m5.large",
					Count: room}}); err != nil {
					t.Fatal(err)
				}
				r.slowStarts(t)
				before := len(r.requests(ec2test.StartInstances))
				started, refused := 0, 0
				for id, a := range startInOrder(t, c, ids) {
					zone := c.index.known[id].zone
					switch {
					case a.err == nil && zone == "us-east-1a":
						started++
					case a.err == nil:
					case zone == "us-east-1a" && provider.IsInsufficientCapacity(a.err):
						refused++
					default:
						t.Errorf("start of %s in %s: %v", id, zone, a.err)
					}
				}
				if refused == 0 || started > room || room > 0 && started == 0 {
					t.Errorf("%d of zone a started, %d were refused; there was room for %d", started, refused, room)
				}
				if calls := len(r.requests(ec2test.StartInstances)) - before; calls > 20 {
					t.Errorf("%d calls for one zone that is out", calls)
				}
			})
		})
	}
}

// TestALoneRefusalTellsWhereToLook: an instance of a zone was refused alone before a call for all
// zones is. One probe of that zone, and the others start by one call.
func TestALoneRefusalTellsWhereToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 60)
		isOut := func(id string) bool { return c.index.known[id].zone == "us-east-1c" }
		opener := slices.IndexFunc(ids, isOut)
		ids[0], ids[opener] = ids[opener], ids[0]
		if err := r.sim.SetCapacity(t.Context(), []simcloud.Capacity{{Zone: "us-east-1c", Type: "m5.large"}}); err != nil {
			t.Fatal(err)
		}
		r.slowStarts(t)
		before := len(r.requests(ec2test.StartInstances))
		for id, a := range startInOrder(t, c, ids) {
			if provider.IsInsufficientCapacity(a.err) != isOut(id) || a.err != nil && !isOut(id) {
				t.Errorf("start of %s in %s: %v", id, c.index.known[id].zone, a.err)
			}
		}
		var sizes []int
		for _, q := range r.requests(ec2test.StartInstances)[before:] {
			sizes = append(sizes, len(q.Instances))
		}
		if want := []int{1, 59, 1, 40}; !slices.Equal(sizes, want) {
			t.Errorf("the calls named %v instances, want %v", sizes, want)
		}
	})
}

// TestSearchesShareWhatTheyFind: a second call has gathered when the first search finds out that a
// zone is out of a type. Its instances are not tried one half after the other too.
func TestSearchesShareWhatTheyFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stoppedIn(t, c, "us-east-1b", 62)
		if err := r.sim.SetCapacity(t.Context(), []simcloud.Capacity{{Zone: "us-east-1b", Type: "m5.large"}}); err != nil {
			t.Fatal(err)
		}
		r.slowStarts(t)
		before := len(r.requests(ec2test.StartInstances))
		results := make(chan error, len(ids))
		for n, id := range ids {
			go func() { results <- c.StartInstance(t.Context(), id) }()
			if n%30 == 1 {
				pass(2 * latency) // what was asked for until now is on its way
			}
		}
		for range ids {
			if err := <-results; !provider.IsInsufficientCapacity(err) {
				t.Errorf("a start was answered %v", err)
			}
		}
		if calls := len(r.requests(ec2test.StartInstances)) - before; calls > 12 {
			t.Errorf("%d calls until it is known that the zone is out, want those of one search", calls)
		}
		pass(loneRefusalsKept + time.Second)
		if err := r.sim.SetCapacity(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.StartInstance(t.Context(), ids[0]); err != nil {
			t.Errorf("a start when the zone has room again: %v", err)
		}
	})
}

// TestRefusedOnesAreNamed: what EC2 names in its refusal costs one more call, however many there
// are.
func TestRefusedOnesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 20)
		gone := []string{"i-00000000deadbee01", "i-00000000deadbee02"}
		r.slowStarts(t)
		before := len(r.requests(ec2test.StartInstances))
		results := startInOrder(t, c, slices.Concat(ids[:10], gone, ids[10:]))
		for id, a := range results {
			if bad := slices.Contains(gone, id); bad != provider.IsNotFound(a.err) || !bad && a.err != nil {
				t.Errorf("start of %s: %v", id, a.err)
			}
		}
		if calls := len(r.requests(ec2test.StartInstances)) - before; calls != 3 {
			t.Errorf("%d calls, want 3: the first alone, one that is refused, one for the rest", calls)
		}
	})
}

// TestAStartThatStillStopsSaysSo: EC2 does not say in which state an instance is that it refuses;
// the caller has to know.
func TestAStartThatStillStopsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 3)
		if err := c.StartInstance(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		await(t, c, provider.InstanceRunning, ids[0])
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultStopHangs, Instance: v1alpha1.InstanceID(ids[0]), Count: 1})
		if err := c.StopInstance(t.Context(), ids[0], false); err != nil {
			t.Fatal(err)
		}
		results := atOnce(ids, func(id string) error { return c.StartInstance(t.Context(), id) })
		want := &provider.IncorrectStateError{ID: ids[0], State: provider.InstanceStopping, Op: "start"}
		if err := results[ids[0]]; err == nil || err.Error() != want.Error() || !provider.IsIncorrectState(err) {
			t.Errorf("start while stopping: %v, want %v", err, want)
		}
		if results[ids[1]] != nil || results[ids[2]] != nil {
			t.Errorf("those beside it: %v, %v", results[ids[1]], results[ids[2]])
		}
	})
}

// TestACallerWhoGivesUpIsTakenOut: its instance is not started, and no other caller notices.
func TestACallerWhoGivesUpIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 3)
		r.slowStarts(t)
		results := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() { results <- c.StartInstance(ctx, ids[i]) }()
			synctest.Wait()
		}
		cancel() // the first call is under way, the second gathers
		var given, fine int
		for range ids {
			switch err := <-results; {
			case err == nil:
				fine++
			case strings.Contains(err.Error(), context.Canceled.Error()):
				given++
			default:
				t.Error(err)
			}
		}
		if given != 1 || fine != 2 {
			t.Errorf("%d gave up, %d started", given, fine)
		}
		if started := order(r.requests(ec2test.StartInstances)); slices.Contains(started, ids[1]) {
			t.Errorf("%s was started although its caller had given up", ids[1])
		}
	})
}
