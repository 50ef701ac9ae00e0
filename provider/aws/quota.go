package aws

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/provider"
)

const (
	// quotaFirst and quotaMost bound how long no call is made for a family whose quota is used up.
	// Shorter than for capacity: the quota is free again as soon as other instances of the account
	// stop.
	quotaFirst = 5 * time.Second
	quotaMost  = 5 * time.Minute
)

// quotas remembers the families of instance types whose quota is used up in one region, with EC2's
// words. Stopped instances do not count against a quota of vCPUs, so launches and starts meet the
// same one.
type quotas struct {
	rests *memory
	// words are guarded by the memory's lock.
	words map[string]error
}

func newQuotas() *quotas {
	return &quotas{rests: newMemory(quotaFirst, quotaMost), words: map[string]error{}}
}

// check is the error of a call for the type that need not be made now; nil where it may be made.
func (q *quotas) check(kind, zone string, now time.Time) error {
	until := q.rests.until(now, quotaOf(kind))
	if until.IsZero() {
		return nil
	}
	q.rests.mu.Lock()
	defer q.rests.mu.Unlock()
	return &provider.InsufficientCapacityError{Type: kind, Zone: zone, Quota: true, Err: q.words[familyOf(kind)]}
}

// answered remembers what a call for the type showed about the quota.
func (q *quotas) answered(kind string, err error, now time.Time) {
	var full *provider.InsufficientCapacityError
	switch {
	case err == nil:
		q.rests.worked(quotaOf(kind))
	case errors.As(err, &full) && full.Quota:
		q.rests.refused(now, quotaOf(kind))
		q.rests.mu.Lock()
		defer q.rests.mu.Unlock()
		q.words[familyOf(kind)] = full.Err
	}
}

func quotaOf(kind string) offering { return offering{kind: familyOf(kind)} }

// familyOf is the group of instance types that shares a quota of vCPUs with the type (AWS
// documentation, "Amazon EC2 instance type quotas").
func familyOf(kind string) string {
	letters := kind
	if n := strings.IndexFunc(kind, func(r rune) bool { return r < 'a' || r > 'z' }); n >= 0 {
		letters = kind[:n]
	}
	switch letters {
	case "a", "c", "d", "h", "i", "im", "is", "m", "mac", "r", "t", "z":
		return "standard"
	case "g", "gr", "vt":
		return "g"
	}
	return letters
}

// StartInstance implements provider.CloudProvider.
func (c *Cloud) StartInstance(ctx context.Context, instanceID string) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	is, known := c.index.get(instanceID)
	if known {
		if err := r.quotas.check(is.kind, is.zone, time.Now()); err != nil {
			return err
		}
	}
	err = outcome(r.starts.do(ctx, instanceID))
	if known {
		r.quotas.answered(is.kind, err, time.Now())
	}
	return err
}
