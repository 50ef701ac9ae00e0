package inventory

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
	// SweepEvery is the pace while nothing is on its way, sweepFast while something is: one call for
	// all pools of the cluster.
	SweepEvery = 15 * time.Second
	sweepFast  = 2 * time.Second
	// FastFor is how long something that we did counts as on its way. Longer than the cloud's reads
	// lag.
	FastFor = 30 * time.Second
)

// Sweep lists the cluster's instances again and again and wakes the controllers of those that
// changed.
type Sweep struct {
	Cloud     provider.CloudProvider
	Owner     Owner
	Reader    client.Reader // the cache
	Inventory *Inventory
	Instances chan<- event.TypedGenericEvent[v1alpha1.InstanceID]
	Pools     chan<- event.TypedGenericEvent[v1alpha1.PoolName]
	Now       func() time.Time
	Log       logr.Logger
	// poked is the time in Unix nanoseconds of the last call of ours that changes an instance.
	poked atomic.Int64
	Wake  chan struct{}
	// marked is when the cluster's UID was written on instances whose last list did not show it yet.
	marked map[v1alpha1.InstanceID]time.Time
	// RegionsChanged is called when other regions fail than before. May be nil.
	RegionsChanged func()
}

// NeedLeaderElection is true: one process manages the instances.
func (s *Sweep) NeedLeaderElection() bool { return true }

// Poke makes the next sweeps come fast: something is on its way.
func (s *Sweep) Poke() {
	s.poked.Store(s.Now().UnixNano())
	select {
	case s.Wake <- struct{}{}:
	default: // awake already
	}
}

// Start sweeps until ctx ends.
func (s *Sweep) Start(ctx context.Context) error {
	for {
		asked := s.Now()
		if err := s.Once(ctx, asked); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "cannot list instances; going on with what was known")
		}
		if !s.rest(ctx, asked) {
			return nil
		}
	}
}

// rest waits for the next sweep: sweepFast after the last one at the soonest. It is false when ctx
// ended.
func (s *Sweep) rest(ctx context.Context, asked time.Time) bool {
	for {
		timer := time.NewTimer(asked.Add(s.Pace()).Sub(s.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.Wake:
			timer.Stop()
		case <-timer.C:
			return true
		}
	}
}

// Pace is how long after one sweep the next is due.
func (s *Sweep) Pace() time.Duration {
	if s.Inventory.InTransition() || s.Now().Sub(time.Unix(0, s.poked.Load())) < FastFor {
		return sweepFast
	}
	return SweepEvery
}

// Once lists the instances, and wakes the reconcilers of what has changed.
func (s *Sweep) Once(ctx context.Context, asked time.Time) error {
	list, err := s.Cloud.ListInstances(ctx, map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos,
		v1alpha1.TagCluster:   s.Owner.Cluster,
	})
	if failed := s.noteRegions(err, asked); failed != nil {
		return failed
	}
	list, theirs, err := s.ours(ctx, list, asked)
	if err != nil {
		return err
	}
	list = s.recoverUntagged(ctx, list, asked)
	changed := s.Inventory.Replace(list, asked)
	pools := map[v1alpha1.PoolName]bool{}
	for _, pool := range s.Inventory.Strangers.note(theirs, s.Log) {
		pools[pool] = true
	}
	for _, id := range changed {
		if e, ok := s.Inventory.Get(id); ok {
			pools[e.Pool()] = true
		}
		if !Send(ctx, s.Instances, id) {
			return nil
		}
	}
	// unchanged ones too: their deadlines and our unfinished calls depend on the time of the sweep
	for _, instance := range list {
		if instance.State != provider.InstanceTerminated && !Send(ctx, s.Instances, instance.ID) {
			return nil
		}
		pools[v1alpha1.PoolName(instance.Tags[v1alpha1.LabelPool])] = true
	}
	s.Inventory.eachLacking(func(e Entry) { pools[e.owningPool()] = true })
	for pool := range pools {
		if !Send(ctx, s.Pools, pool) {
			return nil
		}
	}
	return nil
}

// noteRegions takes in which regions the list lacks. Where others answered, the sweep goes on with
// what it has: it then says nothing about the instances of those that failed.
func (s *Sweep) noteRegions(err error, asked time.Time) error {
	partial, ok := provider.AsPartialList(err)
	if err != nil && !ok {
		return err
	}
	if s.Inventory.Regions.Note(partial, asked) {
		s.Log.Info("regions of the cloud that do not answer have changed; going on with what was known of theirs",
			"failing", fmt.Sprint(err))
		if s.RegionsChanged != nil {
			s.RegionsChanged()
		}
	}
	if ok && partial.Answered == 0 {
		return err
	}
	return nil
}

// Send reports whether the event was sent before ctx ended.
func Send[T any](ctx context.Context, to chan<- event.TypedGenericEvent[T], object T) bool {
	select {
	case to <- event.TypedGenericEvent[T]{Object: object}:
		return true
	case <-ctx.Done():
		return false
	}
}
