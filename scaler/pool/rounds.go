package pool

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/start"
)

// A pool's launches go in rounds. Between two rounds the pool, its nodes and the pending pods are
// read again, so that nothing is launched that is not wanted any more.

// launchResult is how the launches of one reconcile of a pool went.
type launchResult struct {
	slots slots
	// again is when launches go on, 0 for never.
	again time.Duration
	// err is the last refusal of the cloud, which a condition shows.
	err error
}

// replenish launches what the pool lacks: it gives back launches that are not wanted any more,
// reserves slots for new ones, and asks for the open slots. The error is that of a write to the
// pool.
func (c *Reconciler) replenish(ctx context.Context, s snapshot) (launchResult, error) {
	from := nodeclass.DesiredOrigin(ctx, c.Classes, s.pool).Key()
	offer := pending.OfferOf(ctx, c.Classes, s.pool, c.State)
	count := c.count(s.pool, s.nodes)
	lacks := func(slots slots) (plan.Need, plan.Pool) {
		need := c.Demand.Need(s.pool, s.nodes, offer, c.supply(s.pool, s.nodes, slots), c.State)
		return need, c.wants(s.pool, count, need, from)
	}
	need, wants := lacks(s.slots)
	slots, given := c.giveBack(s.pool, s.slots, wants)
	if given {
		need, wants = lacks(slots)
	}
	slots, err := c.reserve(ctx, s.pool, slots, wants, need.Zones)
	if err != nil {
		return launchResult{}, err
	}
	out := launchResult{slots: slots}
	out.again, out.err = c.launch(ctx, s.pool, slots, wants, from)
	c.launchesFail(s.pool, out.err, from)
	return out, nil
}

// refusedFor is for how long pending pods go to other pools after a launch was refused: as long as
// starts of a type do in a zone without capacity.
const refusedFor = 3 * time.Minute

// launchesFail has pods that another pool could serve go there while launches of this one are
// refused, err, or its warm-ups back off. A call that may have launched something is no refusal.
func (c *Reconciler) launchesFail(pool *v1alpha1.NodePool, err error, from string) {
	var until time.Time
	if provider.LaunchedNothing(err) {
		until = c.Now().Add(refusedFor)
	}
	if _, failing := c.Warmups.last(pool, from); failing != nil && backsOff(failing, c.Now()) {
		until = backoffUntil(failing)
	}
	if until.IsZero() {
		return
	}
	for _, pod := range c.Demand.LaunchesFail(v1alpha1.PoolName(pool.Name), until, c.Now()) {
		c.LookAgain(pod)
	}
}

// wants is what launches depend on. need is what pending pods need, from names the class and the
// template that they are launched from.
func (c *Reconciler) wants(pool *v1alpha1.NodePool, count map[v1alpha1.NodeState]int32, need plan.Need,
	from string) plan.Pool {
	_, failing := c.Warmups.last(pool, from)
	p := plan.Pool{
		PoolSize: pool.Spec.PoolSize, MinStandby: pool.Spec.MinStandby, Demand: need.Any, New: need.New,
		Zoned:  int32(len(need.Zones)), //nolint:gosec // one per pod at most
		Served: need.Served, ServedComing: need.ServedComing,
		Standby: count[v1alpha1.StateStandby], Warmup: count[v1alpha1.StateWarmup], Total: total(count),
		// What an unexplained end means is found out first: a launch in its place may end the same way.
		Held: c.Inventory.EndUnexplained(v1alpha1.PoolName(pool.Name)),
	}
	p.Unstartable, p.Withheld = c.unstartable.count(pool, c.Now())
	if failing != nil {
		p.Probe, p.Held = true, p.Held || backsOff(failing, c.Now())
	}
	return p
}

// backsOff reports whether the backoff after the failure stands. One that begins in the future was
// written before the clock was stepped back.
func backsOff(f *v1alpha1.WarmupFailure, now time.Time) bool {
	return now.Before(backoffUntil(f)) && !now.Before(f.Time.Time)
}

// pendingLaunches is how many launches are under way of which no instance counts in the pool yet.
func pendingLaunches(s slots) int32 {
	return int32(len(s.open) - s.interrupted) //nolint:gosec // bounded by poolSize
}

// giveBack ends launches that are not wanted any more and that the cloud was not asked for. The
// others may have launched something.
func (c *Reconciler) giveBack(pool *v1alpha1.NodePool, s slots, wants plan.Pool) (left slots, given bool) {
	wants.Pending = pendingLaunches(s)
	if c.launches.giveBack(pool.UID, int(plan.Unneeded(wants)), c.Now()) {
		return c.settle(pool), true
	}
	return s, false
}

// reserve writes the slots of the launches that the pool lacks, before any of them is asked for.
// The first of them go to the given zones.
func (c *Reconciler) reserve(ctx context.Context, pool *v1alpha1.NodePool, slots slots, has plan.Pool,
	zones []string) (slots, error) {
	has.Pending = pendingLaunches(slots)
	n := plan.Launches(has)
	has.Demand, has.New, has.Zoned = 0, 0, 0
	cold := n - plan.Launches(has) // those that the pool would not launch for itself
	slots = slots.reserve(n).in(zones[:min(len(zones), int(n))])
	text := slots.String()
	if text == pool.Annotations[v1alpha1.AnnotationLaunches] {
		return slots, nil
	}
	before := pool.DeepCopy()
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.AnnotationLaunches, text)
	// The resource version is tested: two leaders for a moment must not take the same slot for two
	// launches.
	if err := c.Client.Patch(ctx, pool, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return slots, err
	}
	c.launches.used(pool.UID, slots.Next-1)
	c.launches.reserved(pool.UID, slots.Pending[len(slots.Pending)-int(n):], int(cold))
	if int(n) > slots.ended { // in place of a refused launch: that was said
		c.Events.Eventf(pool, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonReplenishing), "Launch",
			"launching %d instances", n)
	}
	return slots, nil
}

// launch asks for the first of the open slots. An interrupted launch takes no further room: its
// instance counts already. Asking again for a slot that was launched yields the same instance.
// again is when the next round may begin, 0 where no slot is left. The error is the last refusal,
// also while launches back off from it.
func (c *Reconciler) launch(ctx context.Context, pool *v1alpha1.NodePool, s slots, wants plan.Pool,
	from string) (again time.Duration, err error) {
	open := s.open[:max(0, min(len(s.open), s.interrupted+max(0, int(wants.PoolSize-wants.Total))))]
	if wants.Held {
		open = open[:min(len(open), s.interrupted)]
	} else if wants.Probe {
		open = open[:min(len(open), s.interrupted+1)]
	}
	_, failing := c.Warmups.last(pool, from)
	if len(open) == 0 {
		if failing != nil && wants.Held {
			again = max(backoffUntil(failing).Sub(c.Now()), time.Second)
		}
		return again, nil
	}
	asked := nodeclass.DesiredOrigin(ctx, c.Classes, pool).LaunchKey()
	held := c.launches.heldBy(pool.UID, asked, c.Now())
	if left := held.until.Sub(c.Now()); left > 0 {
		return left, held.err
	}
	round := open
	if most := cmp.Or(c.LaunchesAtOnce, LaunchesAtOnce); len(round) > most {
		round = round[:most]
	}
	// one call shows whether the cloud still refuses; not always the same one, which may be the only
	// one refused
	if held.count > 0 {
		round = open[int(held.count)%len(open):][:1]
	}
	err = c.launchAll(ctx, pool, round, s.Zones)
	switch {
	case isEverywhere(err):
		return c.launches.refuse(pool.UID, asked, err, c.Now()).Sub(c.Now()), err
	case err != nil:
		c.launches.pause(pool.UID, asked, err, c.Now().Add(launchRetry))
		return launchRetry, err
	case len(round) < len(open):
		again = time.Millisecond
	}
	c.launches.accepted(pool.UID)
	c.Demand.LaunchesSucceed(v1alpha1.PoolName(pool.Name))
	return again, nil
}

// isEverywhere reports whether the cloud would refuse the other launches of the pool too: it has
// capacity, but the quota is used up, or the class is wrong, or Stratos is not allowed to, or
// nothing is answered.
func isEverywhere(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) &&
		(!provider.IsInsufficientCapacity(err) || provider.IsQuota(err))
}

// launchAll asks for the slots at once. It returns the refusal that is the same everywhere where
// there is one, else any.
func (c *Reconciler) launchAll(
	ctx context.Context, pool *v1alpha1.NodePool, round []int64, zones map[int64]string,
) error {
	group, errs := &errgroup.Group{}, make([]error, len(round)) // one that fails does not take the others down
	for at, slot := range round {
		group.Go(func() error {
			errs[at] = c.launchOne(ctx, pool, slot, zones[slot])
			return nil
		})
	}
	_ = group.Wait() // they return none
	var last error
	for _, err := range errs {
		if isEverywhere(err) {
			return err
		}
		last = cmp.Or(last, err)
	}
	return last
}

// launchOne asks for one slot, in the zone where it is to be; "" for any.
func (c *Reconciler) launchOne(ctx context.Context, pool *v1alpha1.NodePool, slot int64, zone string) error {
	first := c.launches.ask(pool.UID, slot)
	req := c.LaunchRequest(pool, slot)
	req.Zone = zone
	instance, err := c.Launcher.Launch(ctx, pool.Spec.Template.NodeClassRef, req)
	if provider.IsNotFound(err) { // it was launched and has ended since: nothing is left to ask for
		c.launches.note(pool.UID, slot, c.Now())
		return nil
	}
	if err != nil {
		if first && provider.LaunchedNothing(err) {
			c.launches.end(pool.UID, slot, c.Now())
		}
		return err
	}
	if c.launches.note(pool.UID, slot, c.Now()) {
		c.Metrics.Scaleup.WithLabelValues(pool.Name, string(start.TriggerCold)).Inc()
	}
	c.Inventory.Expect(v1alpha1.PoolName(pool.Name), instance, c.Now(), unseenFor(pool))
	c.Poke()
	if !first { // it may be the answer to an earlier call
		return c.restoreTags(ctx, pool, instance.ID)
	}
	c.State.Launched(pool, instance.Zone, instance.Type)
	return nil
}

// unseenFor is how long a launch for the pool may have happened without any list showing it.
func unseenFor(pool *v1alpha1.NodePool) time.Duration {
	return min(lifecycle.LaunchUnseen, pool.Spec.PreWarm.TimeoutOrDefault())
}
