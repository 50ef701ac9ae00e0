package restarts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	namespace = framework.Namespace
	leaseName = "stratos"
	// leading is 1 for the lease in a replica that holds it.
	leading = "leader_election_master_status"
	ofLease = `name="` + leaseName + `"`
)

// TestTwoReplicas: one replica leads, one serves the scheduler, or one does both; whichever ends in
// mid-burst, the burst ends as if it had not. The proxy between scheduler and extender then goes to
// the other, as the scheduler in the other replica's pod would.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	s := seed(t)
	random := rand.New(rand.NewPCG(s, s))
	r := newRig(t)
	seen, cloudURL := openProgress(t, r)
	both := &replicas{r: r, leases: assert.WatchLease(t, r, namespace, leaseName, checkLasts(t))}
	for i := range both.of {
		both.of[i] = assert.StartStratos(t, r, fmt.Sprintf("stratos-%d", i+1), "--fake-endpoint="+cloudURL, "--leader-elect",
			"--namespace="+namespace)
	}
	r.Recorder.Forward(both.of[0].Extender)
	warm(t, r)
	tr := newTruth(t, r)
	kill := func(p framework.Running) { p.Process.Kill() }

	for i, c := range []struct {
		name string
		// leaderServes: the replica that leads is the one that the scheduler asks.
		leaderServes bool
		// leaderEnds: the replica that leads ends, else the one that serves.
		leaderEnds bool
		end        func(framework.Running)
		released   bool
	}{
		{name: "the leader is killed while the other serves", leaderEnds: true, end: kill},
		{name: "the serving one is killed while the other leads", end: kill},
		{name: "one that leads and serves is killed", leaderServes: true, leaderEnds: true, end: kill},
		{name: "one that leads and serves is stopped as planned", leaderServes: true, leaderEnds: true,
			end: both.terminate(t), released: true},
	} {
		up := slices.DeleteFunc(draw(random, 11), func(m moment) bool { return m.at.down() })
		m := up[0]
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("ended %s; once more with -args -seed %d", m, s)
				}
			})
			leader, other := both.roles(t)
			serving, ending := other, other
			if c.leaderServes {
				serving = leader
			}
			if c.leaderEnds {
				ending = leader
			}
			staying := both.otherThan(ending)
			r.Recorder.Forward(serving.Extender)
			before := both.leases.Holders()
			tr.liveThrough(t, fmt.Sprintf("replicas-%d", i+1), seen, m, func() {
				c.end(ending)
				r.Recorder.Forward(staying.Extender)
			}, func(sprung <-chan struct{}) {
				awaitSprung(t, m, sprung)
				assert.AwaitMetric(t, staying.Metrics, leading, ofLease, func(n float64) bool { return n == 1 })
			})
			after := both.leases.Holders()[len(before)-1:]
			switch released := slices.Contains(after, ""); {
			case c.leaderEnds && len(slices.DeleteFunc(slices.Clone(after), isEmpty)) != 2:
				t.Errorf("the lease was held by %q, want two holders one after the other", after)
			case !c.leaderEnds && len(after) != 1:
				t.Errorf("the lease was held by %q; its holder was not touched", after)
			case released != c.released:
				t.Errorf("the lease was held by %q; given back: %t, want %t", after, released, c.released)
			}
			assert.AwaitEnd(t, ending.Process)
			if err := ending.Process.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s; holders %q", m, after)
		})
		if t.Failed() {
			return
		}
	}
}

func isEmpty(s string) bool { return s == "" }

// replicas are the two processes.
type replicas struct {
	r      *framework.Rig
	of     [2]framework.Running
	leases *assert.Lease
}

// roles returns the replica that leads, and the other.
func (p *replicas) roles(t *testing.T) (leader, other framework.Running) {
	t.Helper()
	assert.Await(t, "one leader", func(ctx context.Context) (bool, error) {
		first, err1 := leads(ctx, p.of[0])
		second, err2 := leads(ctx, p.of[1])
		if err1 != nil || err2 != nil || first == second {
			return false, errors.Join(err1, err2, fmt.Errorf("the first leads: %t, the second leads: %t", first, second))
		}
		leader, other = p.of[0], p.of[1]
		if second {
			leader, other = other, leader
		}
		return true, nil
	})
	return leader, other
}

func (p *replicas) otherThan(s framework.Running) framework.Running {
	if p.of[0] == s {
		return p.of[1]
	}
	return p.of[0]
}

// terminate asks a replica to end, as a rolling update does, and does not wait for it: it may be in
// the middle of a call.
func (p *replicas) terminate(t *testing.T) func(framework.Running) {
	return func(s framework.Running) {
		if err := s.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
}

// leads reads from the replica's own metrics whether it leads.
func leads(ctx context.Context, s framework.Running) (bool, error) {
	n, err := framework.Metric(ctx, s.Metrics, leading, ofLease)
	return n == 1, err
}

// checkLasts: while a replica holds the lease, it lasts as long as docs/restarts.md says.
func checkLasts(t *testing.T) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) {
		holder, lasts := lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds
		if holder != nil && *holder != "" && (lasts == nil || time.Duration(*lasts)*time.Second != 6*time.Second) {
			t.Errorf("the lease of %s lasts %v s, want 6", *holder, lasts)
		}
	}
}
