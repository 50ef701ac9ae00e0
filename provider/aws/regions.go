package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// listTime bounds the list of one region of several: a region that hangs must not hold up the
	// sweeps of the others for long. One attempt of a call has attemptTime.
	listTime = attemptTime + 10*time.Second
	// reviewEvery is how often the regions are reviewed: which of them does something still use?
	reviewEvery = 5 * time.Minute
)

// review is what is known of the regions that are in use. The Cloud's mu guards it.
type review struct {
	// done is when Options.Regions last answered, zero where it never has.
	done time.Time
	// used are the regions that it named.
	used map[regionName]bool
	// named are the regions that classes named when they were last resolved or launched from, by
	// the name of the class.
	named map[string]naming
	// due: a class names another region than before.
	due bool
}

// naming is a class that named a region.
type naming struct {
	region regionName
	at     time.Time
}

func newReview() review {
	return review{used: map[regionName]bool{}, named: map[string]naming{}}
}

// ofClass returns the region of a class, which is in use from now on.
func (c *Cloud) ofClass(class *v1alpha1.AWSNodeClass) (*region, error) {
	r, err := c.in(regionName(class.Spec.Region))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.review.named[class.Name]
	c.review.due = c.review.due || known && last.region != r.name
	c.review.named[class.Name] = naming{r.name, time.Now()}
	return r, nil
}

// everywhere returns the regions in which this cluster may have instances, by name.
func (c *Cloud) everywhere(ctx context.Context) ([]*region, error) {
	if err := c.reviewRegions(ctx); err != nil {
		return nil, fmt.Errorf("regions in use: %w", err)
	}
	if c.options.Config.Region != "" {
		if _, err := c.in(""); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*region
	for _, r := range c.regions {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *region) int { return strings.Compare(string(a.name), string(b.name)) })
	return all, nil
}

// reviewRegions finds out, from time to time, which regions are in use, and drops the others. An
// error is one after which none of them is known.
func (c *Cloud) reviewRegions(ctx context.Context) error {
	now := time.Now()
	c.mu.Lock()
	first := c.review.done.IsZero()
	due := first || c.review.due || now.Sub(c.review.done) >= reviewEvery
	c.mu.Unlock()
	if !due {
		return nil
	}
	var names []string
	if c.options.Regions != nil {
		var err error
		if names, err = c.options.Regions(ctx); err != nil {
			if first {
				return err
			}
			return nil // what was known stands
		}
	}
	used := map[regionName]bool{}
	for _, name := range names {
		if r, err := c.in(regionName(name)); err == nil { // "" without a region of our own is told to the class
			used[r.name] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.review.done, c.review.used, c.review.due = now, used, false
	for name, r := range c.regions {
		if name != regionName(c.options.Config.Region) && !c.usedLocked(r) {
			delete(c.regions, name)
		}
	}
	return nil
}

// isUsed reports whether a class, a Node or an instance is known that needs the region.
func (c *Cloud) isUsed(r *region) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usedLocked(r)
}

// usedLocked is isUsed for callers that hold mu.
func (c *Cloud) usedLocked(r *region) bool {
	if c.review.used[r.name] || c.index.has(r.name) {
		return true
	}
	for _, n := range c.review.named {
		// A caller that reads from the API server finds a class that was there before.
		current := c.options.Regions == nil || !n.at.Before(c.review.done)
		if n.region == r.name && current {
			return true
		}
	}
	return false
}

// ListInstances implements provider.CloudProvider: one list for each region, at the same time.
func (c *Cloud) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	all, err := c.everywhere(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &provider.InvalidConfigError{
			Field: fieldRegion, Reason: "no class names one, and AWS_REGION is not set where Stratos runs",
		}
	}
	found, errs := make([][]*provider.Instance, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for n, r := range all {
		wg.Go(func() { found[n], errs[n] = r.listBeside(ctx, tags, len(all) > 1) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.gather(all, found, errs)
}

// gather makes one list of those of the regions. A region of our own configuration that fails and
// that nothing uses is left out, unless no other answers.
func (c *Cloud) gather(all []*region, found [][]*provider.Instance, errs []error) ([]*provider.Instance, error) {
	partial := &provider.PartialListError{}
	var instances []*provider.Instance
	for n := range all {
		if errs[n] == nil {
			partial.Answered++
			instances = append(instances, found[n]...)
		}
	}
	for n, r := range all {
		if errs[n] == nil || partial.Answered > 0 && !c.isUsed(r) {
			continue
		}
		partial.Failed = append(partial.Failed, provider.FailedRegion{
			Name: string(r.name), Default: string(r.name) == c.options.Config.Region,
			Unknown: r.health.unknown(), Err: errs[n],
		})
	}
	slices.SortFunc(instances, func(a, b *provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if len(partial.Failed) > 0 {
		return instances, partial
	}
	return instances, nil
}

// health says whether a region answers lists.
type health struct {
	// mu guards the fields below.
	mu sync.Mutex
	// answered: a list was answered since the process began.
	answered bool
	// failed is the error of the last list, nil where it was answered.
	failed error
	// probing: a goroutine finds out whether the region answers again.
	probing bool
}

func (h *health) unknown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.answered
}

func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed, h.answered = err, h.answered || err == nil
}

// mayProbe returns the error of the last list, and whether the caller is to find out if it still
// holds.
func (h *health) mayProbe() (probe bool, failed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	probe = h.failed != nil && !h.probing
	h.probing = h.probing || probe
	return probe, h.failed
}

func (h *health) probed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing, h.failed = false, err
}

// listBeside lists the region, concurrently with others where there are any. Then a region that
// failed the last time is not waited for: it is listed again once a small call has been answered.
func (r *region) listBeside(ctx context.Context, tags map[string]string, others bool) ([]*provider.Instance, error) {
	limit := ctx
	if others {
		probe, failed := r.health.mayProbe()
		if probe {
			go r.probe(context.WithoutCancel(ctx))
		}
		if failed != nil {
			return nil, failed
		}
		bounded, cancel := context.WithTimeout(ctx, listTime)
		defer cancel()
		limit = bounded
	}
	list, err := r.list(limit, tags)
	if ctx.Err() == nil { // else the caller gave up, which says nothing about the region
		r.health.note(err)
	}
	return list, err
}

// probe makes one small call and remembers what came of it.
func (r *region) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	_, err := r.client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(smallestPage)})
	r.health.probed(subject{operation: "DescribeInstances"}.typed(err))
}

// smallestPage is the smallest page that EC2 gives.
const smallestPage = 5
