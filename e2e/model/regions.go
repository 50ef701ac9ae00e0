package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// regionNames are the cloud's regions. The first is that of classes that name none.
func regionNames() []string { return []string{"near", "far"} }

// zoneNames are the zones of a region. As EC2's, no two regions have one of the same name.
func zoneNames(region string) []string {
	if regionOr(region) == regionNames()[0] {
		return []string{"x", "y"}
	}
	return []string{"far-x", "far-y"}
}

// classOf is the class of a pool. That of the second pool names the second region.
func classOf(pool string) string {
	if pool == poolNamed(1) {
		return "far"
	}
	return "class"
}

// regionOr is the region, or that of classes that name none.
func regionOr(name string) string {
	if name == "" {
		return regionNames()[0]
	}
	return name
}

// regionDown reports whether the region answers nothing now.
func (t *trouble) regionDown(name string, now time.Time) bool {
	return now.Before(t.regions[regionOr(name)])
}

func (t *trouble) anyRegionDown(now time.Time) bool {
	return slices.ContainsFunc(regionNames(), func(name string) bool { return t.regionDown(name, now) })
}

// inRegion is the error of a call to a region that does not answer, nil where it does.
func (p *process) inRegion(name string) error {
	if p.w.trouble.regionDown(name, p.w.now) {
		return fmt.Errorf("region %s: %w", regionOr(name), errUnreachable)
	}
	return nil
}

// lacking is the error of a list that lacks the regions that do not answer now, nil for none.
func (p *process) lacking() error {
	partial := &provider.PartialListError{}
	for n, name := range regionNames() {
		if err := p.inRegion(name); err != nil {
			partial.Failed = append(partial.Failed, provider.FailedRegion{
				Name: name, Default: n == 0, Unknown: !p.answered[name], Err: err,
			})
			continue
		}
		p.answered[name] = true
		partial.Answered++
	}
	if len(partial.Failed) == 0 {
		return nil
	}
	return partial
}

// regionCounted checks that the status of a pool goes on counting the instances of a region that
// does not answer, as far as the process has seen them.
func (r *rules) regionCounted(p *v1alpha1.NodePool) {
	if len(r.w.processes) != 1 {
		return
	}
	process, count, long := r.w.processes[0], 0, r.w.now.Add(-10*time.Second)
	for _, i := range r.w.cloud.of(p.Name) {
		isKnown := process.seen[i.id] && i.launched.Before(long) && i.meddled.IsZero() && i.unseenUntil.Before(long)
		if r.w.trouble.regionDown(i.region, r.w.now) && isKnown && i.died != i.boot &&
			i.state() != provider.InstanceShuttingDown {
			count++
		}
	}
	if int(p.Status.Total) < count {
		r.w.breaks("status", "pool %s tells of %d instances, and has %d in a region that does not answer", p.Name,
			p.Status.Total, count)
	}
}
