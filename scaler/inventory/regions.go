package inventory

import (
	"fmt"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/provider"
)

// regionGrace is how long a region that has answered before may fail until its classes and pools
// say so: clouds have troubles of a few seconds.
const regionGrace = 30 * time.Second

// Regions remembers which regions of the cloud do not answer. The zero value is ready.
type Regions struct {
	// mu guards the fields below.
	mu sync.RWMutex
	// failing are by name those that did not answer the last sweep.
	failing map[string]FailingRegion
}

// FailingRegion is a region that does not answer, and since when.
type FailingRegion struct {
	provider.FailedRegion
	since time.Time
	// told: classes and pools say so.
	told bool
}

// Message say which region fails, and why.
func (f FailingRegion) Message() string {
	return fmt.Sprintf("region %s does not answer: %v", f.Name, f.Err)
}

// Note takes in what a sweep says about the regions; nil: all of them answered. It reports whether
// classes and pools have something else to say now.
func (r *Regions) Note(partial *provider.PartialListError, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, changed := map[string]FailingRegion{}, false
	if partial != nil {
		for _, f := range partial.Failed {
			last, known := r.failing[f.Name]
			n := FailingRegion{FailedRegion: f, since: now}
			if known {
				// That some other list of the region was answered tells the sweeps nothing.
				n.since, n.Unknown = last.since, last.Unknown || f.Unknown
			}
			n.told = last.told || n.Unknown || now.Sub(n.since) >= regionGrace
			changed = changed || n.told != last.told
			next[f.Name] = n
		}
	}
	for name, last := range r.failing {
		if _, still := next[name]; !still && last.told {
			changed = true
		}
	}
	r.failing = next
	return changed
}

// get returns the failure of a region; "" is the one that classes mean that name none.
func (r *Regions) get(name string) (FailingRegion, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if name != "" {
		f, ok := r.failing[name]
		return f, ok
	}
	for _, f := range r.failing {
		if f.Default {
			return f, true
		}
	}
	return FailingRegion{}, false
}

// Told is get where the region has failed for long enough to say so.
func (r *Regions) Told(name string) (FailingRegion, bool) {
	f, ok := r.get(name)
	return f, ok && f.told
}

// lacks reports whether the last sweep lacked the instance's region, so that it says nothing about
// the instance.
func (r *Regions) lacks(i *provider.Instance) bool {
	if i.Region == "" {
		return false
	}
	_, ok := r.get(i.Region)
	return ok
}

// Unknown reports whether it is not known what is in the region.
func (r *Regions) Unknown(name string) bool {
	f, ok := r.get(name)
	return ok && f.Unknown
}

// eachLacking calls f with every instance that the last sweep said nothing about.
func (i *Inventory) eachLacking(f func(Entry)) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, e := range i.instances {
		if !e.Gone() && i.Regions.lacks(&e.Instance) {
			f(e)
		}
	}
}
