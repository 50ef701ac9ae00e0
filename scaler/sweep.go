package scaler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// sweepEvery is the pace while nothing is on its way, sweepFast while something is: one call for
	// all pools of the cluster.
	sweepEvery = 15 * time.Second
	sweepFast  = 2 * time.Second
	// fastFor is how long something that we did counts as on its way. Longer than the cloud's reads
	// lag.
	fastFor = 30 * time.Second
)

// sweep lists the cluster's instances again and again and wakes the controllers of those that
// changed.
type sweep struct {
	cloud     provider.CloudProvider
	owner     owner
	reader    client.Reader // the cache
	inventory *inventory
	instances chan<- event.TypedGenericEvent[v1alpha1.InstanceID]
	pools     chan<- event.TypedGenericEvent[v1alpha1.PoolName]
	now       func() time.Time
	log       logr.Logger
	// poked is the time in Unix nanoseconds of the last call of ours that changes an instance.
	poked atomic.Int64
	wake  chan struct{}
	// marked is when the cluster's UID was written on instances whose last list did not show it yet.
	marked map[v1alpha1.InstanceID]time.Time
	// regionsChanged is called when other regions fail than before. May be nil.
	regionsChanged func()
}

// NeedLeaderElection is true: one process manages the instances.
func (s *sweep) NeedLeaderElection() bool { return true }

// poke makes the next sweeps come fast: something is on its way.
func (s *sweep) poke() {
	s.poked.Store(s.now().UnixNano())
	select {
	case s.wake <- struct{}{}:
	default: // awake already
	}
}

// Start sweeps until ctx ends.
func (s *sweep) Start(ctx context.Context) error {
	for {
		asked := s.now()
		if err := s.once(ctx, asked); err != nil && ctx.Err() == nil {
			s.log.Error(err, "cannot list instances; going on with what was known")
		}
		if !s.rest(ctx, asked) {
			return nil
		}
	}
}

// rest waits for the next sweep: sweepFast after the last one at the soonest. It is false when ctx
// ended.
func (s *sweep) rest(ctx context.Context, asked time.Time) bool {
	for {
		timer := time.NewTimer(asked.Add(s.pace()).Sub(s.now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
			return true
		}
	}
}

// pace is how long after one sweep the next is due.
func (s *sweep) pace() time.Duration {
	if s.inventory.inTransition() || s.now().Sub(time.Unix(0, s.poked.Load())) < fastFor {
		return sweepFast
	}
	return sweepEvery
}

// once lists the instances, and wakes the reconcilers of what has changed.
func (s *sweep) once(ctx context.Context, asked time.Time) error {
	list, err := s.cloud.ListInstances(ctx, map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos,
		v1alpha1.TagCluster:   s.owner.cluster,
	})
	if failed := s.noteRegions(err, asked); failed != nil {
		return failed
	}
	list, theirs, err := s.ours(ctx, list, asked)
	if err != nil {
		return err
	}
	list = s.recoverUntagged(ctx, list, asked)
	changed := s.inventory.replace(list, asked)
	pools := map[v1alpha1.PoolName]bool{}
	for _, pool := range s.inventory.strangers.note(theirs, s.log) {
		pools[pool] = true
	}
	for _, id := range changed {
		if e, ok := s.inventory.get(id); ok {
			pools[e.pool()] = true
		}
		if !send(ctx, s.instances, id) {
			return nil
		}
	}
	// unchanged ones too: their deadlines and our unfinished calls depend on the time of the sweep
	for _, instance := range list {
		if instance.State != provider.InstanceTerminated && !send(ctx, s.instances, instance.ID) {
			return nil
		}
		pools[v1alpha1.PoolName(instance.Tags[v1alpha1.LabelPool])] = true
	}
	s.inventory.eachLacking(func(e entry) { pools[e.owningPool()] = true })
	for pool := range pools {
		if !send(ctx, s.pools, pool) {
			return nil
		}
	}
	return nil
}

// noteRegions takes in which regions the list lacks. Where others answered, the sweep goes on with
// what it has: it then says nothing about the instances of those that failed.
func (s *sweep) noteRegions(err error, asked time.Time) error {
	partial, ok := provider.AsPartialList(err)
	if err != nil && !ok {
		return err
	}
	if s.inventory.regions.note(partial, asked) {
		s.log.Info("regions of the cloud that do not answer have changed; going on with what was known of theirs",
			"failing", fmt.Sprint(err))
		if s.regionsChanged != nil {
			s.regionsChanged()
		}
	}
	if ok && partial.Answered == 0 {
		return err
	}
	return nil
}

// send reports whether the event was sent before ctx ended.
func send[T any](ctx context.Context, to chan<- event.TypedGenericEvent[T], object T) bool {
	select {
	case to <- event.TypedGenericEvent[T]{Object: object}:
		return true
	case <-ctx.Done():
		return false
	}
}
