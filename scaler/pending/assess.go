package pending

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// assessment is what can be said of a pool for a pod.
type assessment struct {
	why       string
	closeness closeness
	// launch: a new instance of the pool could serve the pod, and poolSize allows one. coming: one
	// could, and some are warming up.
	launch, coming bool
	// zones are those in which a new instance could; none means any.
	zones []string
	// startable is when the first standby node that would take the pod ends its backoff; zero where
	// none backs off.
	startable time.Time
}

// assess checks the pod against the pool's nodes as if they were empty, and against a new instance
// in each zone of its class. All nodes of a pool are alike but for their zones and instance types,
// so where every node refuses, the first refusal by name holds for the pool. backsOff is until when
// a standby node is not started, and why; zero where it may be.
func assess(judge *cluster.PodFit, p cluster.PoolNodes, o Offer, backsOff func(*decide.Node) backOff) assessment {
	pool := p.Pool
	fits := checkNodes(judge, p.Nodes, backsOff)
	zones, never := serving(judge, pool, o.patternOf(p.Patterns), o)
	serves := never == nil
	room, warming := serves && pool.Status.Total < pool.Spec.PoolSize, serves && pool.Status.Warmup > 0
	says := func(near closeness, why string) assessment {
		return assessment{why: "pool " + pool.Name + why, closeness: near, launch: room, coming: warming, zones: zones,
			startable: fits.backsOff.until}
	}
	if near, why := unfit(p, fits, never); why != "" { // the state of a pool that the pod does not fit is of no use to it
		return says(near, ": "+why)
	}
	switch {
	case pool.DeletionTimestamp != nil:
		return assessment{why: "pool " + pool.Name + " is being deleted", closeness: withheld}
	case pool.IsPaused():
		return assessment{why: "pool " + pool.Name + " is paused", closeness: withheld}
	case len(p.Nodes) == 0:
		return says(withoutRoomNow, " has no node yet")
	case !fits.any:
		return says(fits.closeness, ": "+fits.refusal)
	case fits.free:
		return says(withoutRoomNow, " has no standby node with room now")
	case !fits.backsOff.until.IsZero():
		return says(withoutRoomNow, ": "+fits.backsOff.words())
	case fits.apart != "":
		return says(podsApart, ": "+fits.apart)
	case serves && !room:
		return says(withoutRoomNow, fmt.Sprintf(" is at its poolSize of %d and none of its nodes has room", pool.Spec.PoolSize))
	}
	return says(withoutRoomNow, " has no standby node with room now")
}

// startable is when the first of the standby nodes ends its backoff; zero where none backs off.
func startable(pools []assessment) time.Time {
	var first time.Time
	for i := range pools {
		if at := pools[i].startable; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// unfit is why the pod fits neither the nodes of the pool nor, where it has none, a new instance,
// whatever the state of the pool; "" where it fits.
func unfit(p cluster.PoolNodes, fits poolFit, never *fit.Refusal) (closeness, string) {
	switch {
	case len(p.Nodes) == 0 && never != nil:
		return closenessOf(never), never.Explain()
	case len(p.Nodes) > 0 && !fits.any && fits.closeness < withheld:
		return fits.closeness, fits.refusal
	}
	return 0, ""
}

// poolFit is how a pod fits the nodes of a pool: whether any of them fits it when it is empty, and
// whether one of these is a standby node that is free to take it now.
type poolFit struct {
	any, free bool
	// refusal is the first reason why a node does not fit, apart the first why one that fits does not
	// take the pod now.
	refusal, apart string
	// closeness is that of the refusal.
	closeness closeness
	// backsOff is that of the standby node that would take the pod and may be started again first;
	// zero where there is none.
	backsOff backOff
}

// backOff is until when a standby node is not started.
type backOff struct {
	until time.Time
	// offering is the zone and type without capacity; zero where the node's own starts failed.
	offering decide.Offering
}

func (b backOff) words() string {
	until := b.until.UTC().Format(time.RFC3339)
	if b.offering != (decide.Offering{}) {
		return fmt.Sprintf("zone %s has no capacity for %s; next try after %s", b.offering.Zone, b.offering.What(), until)
	}
	return "its standby nodes back off after failed starts until " + until
}

// checkNodes looks at no more nodes than it takes: one that takes the pod now decides, and once one
// fits, only standby nodes can say more.
func checkNodes(judge *cluster.PodFit, nodes []*decide.Node, backsOff func(*decide.Node) backOff) poolFit {
	var fits poolFit
	for _, n := range nodes {
		if fits.any && n.State != v1alpha1.StateStandby {
			continue
		}
		refusal := refusesEmpty(judge, n, true)
		if refusal != nil || n.State == v1alpha1.StateStandby && n.NotStartable != "" {
			if fits.refusal == "" {
				fits.refusal, fits.closeness = whyNotNode(n, refusal)
			}
			continue
		}
		fits.any = true
		if n.State != v1alpha1.StateStandby {
			continue
		}
		if refusal := judge.Refusal(n); refusal != nil {
			// It is empty, so what is left is where other pods are (anti-affinity, spread). A new instance
			// may come up in another zone, so this rules out no new instance.
			fits.apart = cmp.Or(fits.apart, refusal.Explain())
			continue
		}
		waits := backsOff(n)
		if waits.until.IsZero() {
			fits.free = true
			return fits
		}
		if fits.backsOff.until.IsZero() || waits.until.Before(fits.backsOff.until) {
			fits.backsOff = waits
		}
	}
	return fits
}

// whyNotNode is why a node is of no use to the pod, whatever other pods of the cluster do.
func whyNotNode(n *decide.Node, refusal *fit.Refusal) (string, closeness) {
	if refusal != nil {
		return refusal.Explain(), closenessOf(refusal)
	}
	return "its standby nodes are not startable: " + n.NotStartable, withheld
}
