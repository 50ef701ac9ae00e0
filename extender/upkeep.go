package extender

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
)

const (
	// nudgeAfter is how long a claimed pod of a running node may go unasked before the Node is
	// touched. The scheduler asks again within milliseconds of the node turning schedulable; if our
	// watch was behind its, it was refused then, and in a quiet cluster no further event would bring
	// it back.
	nudgeAfter = 100 * time.Millisecond
	// nudgeEvery spaces repeated touches for one node.
	nudgeEvery = time.Second
	// askEvery spaces repeated starts of a node whose claims are late.
	askEvery = 10 * time.Second
	// upkeepEvery is how often Stratos checks its claims. Without claims a check is a few comparisons.
	upkeepEvery = 20 * time.Millisecond
	// forgetAfter is how long pods that are gone, and refusals, are remembered, and how often the old
	// ones are dropped. The scheduler's watch is not behind ours for longer: its client gives up a
	// connection without an answer after 45 s.
	forgetAfter = time.Minute
)

// Upkeep ends overdue claims, asks again for starts that are late, and touches nodes whose claimed
// pods the scheduler does not ask about. Every replica does it for its own claims.
type Upkeep struct {
	state   *cluster.State
	starter Starter
	client  client.Writer
	events  events.EventRecorder
	now     func() time.Time
	log     logr.Logger
	// nudged is when a node was last touched for the pods of each node, nudgedLast when for any.
	nudged     map[v1alpha1.NodeName]time.Time
	nudgedLast time.Time
	// asked is when late starts were last asked for again.
	asked map[v1alpha1.NodeName]time.Time
	// answered is the opening of the cluster state for which pods have been brought back.
	answered time.Time
	// forgot is when old refusals and pods that are gone were last dropped.
	forgot time.Time
}

// NewUpkeep returns the upkeep of the cluster state's claims; it works once its Start runs.
func NewUpkeep(p Parts) *Upkeep {
	return &Upkeep{
		state: p.State, starter: p.Starter, client: p.Client, events: p.Events, now: p.Now, log: p.Log,
		nudged: map[v1alpha1.NodeName]time.Time{}, asked: map[v1alpha1.NodeName]time.Time{},
	}
}

// missed reports, once for each opening of the cluster state, whether a pod was refused because the
// cluster state was behind.
func (u *Upkeep) missed(now time.Time) bool {
	missed, opened := u.state.Missed()
	if !opened.After(u.answered) || now.Sub(opened) < nudgeAfter {
		return false
	}
	u.answered = opened
	return missed
}

// NeedLeaderElection is false: each replica maintains its own claims.
func (u *Upkeep) NeedLeaderElection() bool { return false }

// Start runs until ctx ends.
func (u *Upkeep) Start(ctx context.Context) error {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			u.Once(ctx)
		}
	}
}

// Once looks at all claims.
func (u *Upkeep) Once(ctx context.Context) {
	now := u.now()
	if u.state.ExpireBackoffs(now) || u.missed(now) {
		if node, ok := u.state.AnyPoolNode(); ok { // any node's event brings the pending pods back
			u.touch(ctx, node, now)
		}
	}
	u.forget(now) // after missed, which may need refusals that are old by now where a touch took long
	if u.state.ClaimCount() == 0 {
		clear(u.nudged)
	}
	u.askAgain(now)
	u.nudge(ctx, now)
	u.state.ExpireReplicas(now)
	for _, c := range u.state.Overdue(now) {
		if c.Adopted {
			continue // the replica that made the claim reports it
		}
		u.events.Eventf(c.Ref.Object(), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonFutileStart), "Start",
			"node %s of pool %s runs, but the pod was not bound to it; not starting another for a while", c.Node, c.Pool)
	}
}

// nudge touches one node for all whose claimed pods the scheduler does not ask about: it brings all
// pending pods back. So it counts for each node that runs by now, also for those that would not be
// due yet, and the next touch waits for more of them. Otherwise a burst whose nodes begin to run
// one after the other would have a touch for each of them.
func (u *Upkeep) nudge(ctx context.Context, now time.Time) {
	if now.Sub(u.nudgedLast) < nudgeAfter {
		return
	}
	unasked := u.state.Unasked(now, nudgeAfter)
	due := slices.IndexFunc(unasked, func(n v1alpha1.NodeName) bool { return now.Sub(u.nudged[n]) >= nudgeEvery })
	if due < 0 {
		return
	}
	for _, node := range u.state.Unasked(now, 0) {
		u.nudged[node] = now
	}
	u.nudgedLast = now
	u.touch(ctx, unasked[due], now)
}

// askAgain asks for the starts that are late and do not show. The Starter knows whether the write
// is refused, and ends the claims then. Where a transition was missed, nothing else comes back to
// the node.
func (u *Upkeep) askAgain(now time.Time) {
	maps.DeleteFunc(u.asked, func(_ v1alpha1.NodeName, at time.Time) bool { return now.Sub(at) >= askEvery })
	for _, node := range u.state.Late(now) {
		if _, lately := u.asked[node]; !lately {
			u.asked[node] = now
			u.starter.StartNode(node)
		}
	}
}

func (u *Upkeep) forget(now time.Time) {
	if now.Sub(u.forgot) < forgetAfter {
		return
	}
	u.forgot = now
	u.state.Forget(now.Add(-forgetAfter))
}

func (u *Upkeep) touch(ctx context.Context, node v1alpha1.NodeName, now time.Time) {
	if err := cluster.Nudge(ctx, u.client, node, now); err != nil {
		u.log.Error(err, "cannot touch node for pending pods", "node", node)
	}
}
