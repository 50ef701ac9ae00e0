package inventory

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Tagger writes tags on instances.
type Tagger struct {
	cloud     provider.CloudProvider
	owner     Owner
	inventory *Inventory
	log       logr.Logger
}

// NewTagger is a tagger that logs as the context says.
func NewTagger(ctx context.Context, cloud provider.CloudProvider, o Owner, i *Inventory) Tagger {
	return Tagger{cloud, o, i, logr.FromContextOrDiscard(ctx)}
}

func (s *Sweep) tagger() Tagger { return Tagger{s.Cloud, s.Owner, s.Inventory, s.Log} }

// Write writes the tags, and notes them so that they are not written again before a sweep shows
// them.
func (t Tagger) Write(ctx context.Context, id v1alpha1.InstanceID, tags map[string]string) error {
	if err := t.cloud.UpdateInstanceTags(ctx, string(id), tags); err != nil {
		return err
	}
	t.inventory.Tagged(id, tags)
	return nil
}

// Rewrite is write for tags that were removed.
func (t Tagger) Rewrite(ctx context.Context, id v1alpha1.InstanceID, tags map[string]string) error {
	err := t.Write(ctx, id, tags)
	if err == nil {
		t.log.Info("wrote tags again that were missing", "instance", id, "tags", tags)
	}
	return err
}

// Restore writes the tags that an instance of the pool lacks, and returns it with them. Where its
// tags name another owner it is left alone, and ours is false.
func (t Tagger) Restore(
	ctx context.Context, i *provider.Instance, pool v1alpha1.PoolName,
) (restored *provider.Instance, ours bool, err error) {
	missing, ours := t.owner.missingTags(i.Tags, pool)
	if !ours || len(missing) == 0 || i.State == provider.InstanceTerminated {
		return i, ours, nil
	}
	if err := t.Rewrite(ctx, i.ID, missing); err != nil {
		return i, true, err
	}
	return withTags(i, missing), true, nil
}
