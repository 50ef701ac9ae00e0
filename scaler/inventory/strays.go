package inventory

import (
	"context"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// recoverUntagged adds the instances that the list has missed for a while although they are there:
// one that lost our tags is in no list of ours, and would pass for one that is gone, and be
// replaced. The cloud is asked about each, and what was taken is written again. One that cannot be
// described or tagged keeps nothing else from its repair: it stays as it is, and its pool says why.
func (s *Sweep) recoverUntagged(ctx context.Context, list []*provider.Instance, asked time.Time) []*provider.Instance {
	unsure := map[v1alpha1.InstanceID]bool{}
	for _, e := range s.Inventory.missing(list, asked) {
		instance, err := s.Cloud.GetInstance(ctx, string(e.ID))
		switch {
		case provider.IsNotFound(err):
			continue
		case err != nil:
			unsure[e.ID] = true
			s.stray(ctx, e, "it is in no list of this cluster's instances and cannot be described", err, asked)
			continue
		case instance.State == provider.InstanceTerminated:
			continue
		}
		restored, ours, err := s.tagger().Restore(ctx, instance, e.owningPool())
		if !ours {
			continue
		}
		switch {
		case err != nil: // the instance is there all the same
			s.stray(ctx, e, "it is in no list of this cluster's instances and cannot be tagged", err, asked)
		case restored != instance:
			s.Inventory.Accepted(e.ID)
		}
		list = append(list, restored)
	}
	s.Inventory.doubt(unsure)
	return list
}

// stray shows on the instance's pool why its tags are not written again, and logs it once.
func (s *Sweep) stray(ctx context.Context, e Entry, what string, err error, asked time.Time) {
	if ctx.Err() != nil {
		return
	}
	words := what + ": " + err.Error()
	if s.Inventory.Refused(e.ID, Refusal{Reason: v1alpha1.ReasonTagsMissing, Message: words, At: asked}) {
		s.Log.Error(err, "tags are missing on an instance: "+what, "instance", e.ID, "pool", e.owningPool())
	}
}

// doubt remembers the instances of which it is not known whether they are gone.
func (i *Inventory) doubt(unsure map[v1alpha1.InstanceID]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unsure = unsure
}
