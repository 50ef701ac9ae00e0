package kind

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Docker cannot change the labels of a container, so a tag that is changed is kept beside it: each
// change is a volume without content whose labels hold all tags that were set since the launch, and
// a generation. Making a volume is atomic, Docker keeps it over its own restart, and all of them
// are read by one call. The highest generation counts. Two writers that meet are told apart by what
// they wrote: making a volume that exists returns that one.
const (
	// labelTagsOf is the Docker id of the container: another one that takes its name later does not
	// inherit.
	labelTagsOf = labelPrefix + "tags-of"
	// labelGeneration counts the changes.
	labelGeneration = labelPrefix + "generation"
	// labelTags holds the tags as JSON.
	labelTags = labelPrefix + "tags"
	// labelWriter tells one writer from another.
	labelWriter = labelPrefix + "writer"
)

// changed are the tags of one container that were set since its launch.
type changed struct {
	tags       map[string]string
	generation int
	// volumes are the names of those that say so or said so before.
	volumes []string
}

// changedTags returns the changed tags by the Docker id of the container.
func (p *Provider) changedTags(ctx context.Context, more ...filters.KeyValuePair) (map[string]changed, error) {
	listed, err := p.docker.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(append(more,
		filters.Arg("label", labelTagsOf))...)})
	if err != nil {
		return nil, fmt.Errorf("docker: listing volumes: %w", err)
	}
	out := map[string]changed{}
	for _, v := range listed.Volumes {
		of := v.Labels[labelTagsOf]
		generation, err := strconv.Atoi(v.Labels[labelGeneration])
		if err != nil {
			return nil, fmt.Errorf("volume %s: label %s: %w", v.Name, labelGeneration, err)
		}
		now := out[of]
		now.volumes = append(now.volumes, v.Name)
		if generation > now.generation {
			var tags map[string]string
			if err := json.Unmarshal([]byte(v.Labels[labelTags]), &tags); err != nil {
				return nil, fmt.Errorf("volume %s: label %s: %w", v.Name, labelTags, err)
			}
			now.tags, now.generation = tags, generation
		}
		out[of] = now
	}
	return out, nil
}

// UpdateInstanceTags implements provider.CloudProvider.
func (p *Provider) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	n, err := p.find(ctx, instanceID)
	if err != nil {
		return err
	}
	for {
		won, err := p.changeTags(ctx, n, tags)
		if err != nil || won {
			return err
		}
		// Another writer was first: theirs is the ground that ours goes on. It ends, because each round
		// some writer gets through.
	}
}

// changeTags makes one try. False: another writer was faster, and what was written may not count.
func (p *Provider) changeTags(ctx context.Context, n node, tags map[string]string) (bool, error) {
	of := filters.Arg("label", labelTagsOf+"="+n.ID)
	before, err := p.changedTags(ctx, of)
	if err != nil {
		return false, err
	}
	now := before[n.ID]
	if carries(tagsOf(n.Labels, now.tags), tags) {
		return true, nil
	}
	all := maps.Clone(tags)
	for key, value := range now.tags {
		if _, set := tags[key]; !set {
			all[key] = value
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return false, fmt.Errorf("tags of %s: %w", n.id, err)
	}
	generation, writer := strconv.Itoa(now.generation+1), rand.Text()
	made, err := p.docker.VolumeCreate(ctx, volume.CreateOptions{
		Name: fmt.Sprintf("stratos-tags-%.12s-%s", n.ID, generation),
		Labels: map[string]string{labelTagsOf: n.ID, labelGeneration: generation, labelTags: string(text),
			labelWriter: writer},
	})
	if err != nil {
		return false, fmt.Errorf("docker: making a volume for the tags of %s: %w", n.id, failure(err, n.Labels))
	}
	if made.Labels[labelWriter] != writer {
		return false, nil
	}
	// A writer that went on from a generation that we did not see would leave ours behind unread.
	after, err := p.changedTags(ctx, of)
	if err != nil {
		return false, err
	}
	p.removeVolumes(ctx, now.volumes)
	return after[n.ID].generation == now.generation+1, nil
}

// removeVolumes removes what no longer counts. One that stays does no harm: it is removed with the
// next change, or with the node.
func (p *Provider) removeVolumes(ctx context.Context, names []string) {
	for _, name := range names {
		_ = p.docker.VolumeRemove(ctx, name, true)
	}
}

// sweepTags removes the volumes of containers that are gone. The volumes are listed first, so that
// one that belongs to a container made meanwhile is not among them.
func (p *Provider) sweepTags(ctx context.Context) error {
	all, err := p.changedTags(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	found, err := p.nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range found {
		delete(all, n.ID)
	}
	for _, left := range all {
		p.removeVolumes(ctx, left.volumes)
	}
	return nil
}
