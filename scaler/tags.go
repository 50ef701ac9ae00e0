package scaler

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// tagger writes tags on instances.
type tagger struct {
	cloud     provider.CloudProvider
	owner     owner
	inventory *inventory
	log       logr.Logger
}

// newTagger is a tagger that logs as the context says.
func newTagger(ctx context.Context, cloud provider.CloudProvider, o owner, i *inventory) tagger {
	return tagger{cloud, o, i, logr.FromContextOrDiscard(ctx)}
}

func (c *nodes) tagger(ctx context.Context) tagger {
	return newTagger(ctx, c.cloud, c.owner, c.inventory)
}

func (c *pools) tagger(ctx context.Context) tagger {
	return newTagger(ctx, c.cloud, c.owner, c.inventory)
}

func (s *sweep) tagger() tagger { return tagger{s.cloud, s.owner, s.inventory, s.log} }

// write writes the tags, and notes them so that they are not written again before a sweep shows
// them.
func (t tagger) write(ctx context.Context, id v1alpha1.InstanceID, tags map[string]string) error {
	if err := t.cloud.UpdateInstanceTags(ctx, string(id), tags); err != nil {
		return err
	}
	t.inventory.tagged(id, tags)
	return nil
}

// rewrite is write for tags that were removed.
func (t tagger) rewrite(ctx context.Context, id v1alpha1.InstanceID, tags map[string]string) error {
	err := t.write(ctx, id, tags)
	if err == nil {
		t.log.Info("wrote tags again that were missing", "instance", id, "tags", tags)
	}
	return err
}

// restore writes the tags that an instance of the pool lacks, and returns it with them. Where its
// tags name another owner it is left alone, and ours is false.
func (t tagger) restore(
	ctx context.Context, i *provider.Instance, pool v1alpha1.PoolName,
) (restored *provider.Instance, ours bool, err error) {
	missing, ours := t.owner.missingTags(i.Tags, pool)
	if !ours || len(missing) == 0 || i.State == provider.InstanceTerminated {
		return i, ours, nil
	}
	if err := t.rewrite(ctx, i.ID, missing); err != nil {
		return i, true, err
	}
	return withTags(i, missing), true, nil
}
