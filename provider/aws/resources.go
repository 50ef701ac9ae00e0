package aws

import (
	"context"
	"sync"
	"time"

	"github.com/stratos-sh/stratos/provider/limiter"
)

// resources is how many instances the calls of one operation may still name. EC2 counts them in a
// separate bucket from that of the calls, and refuses a call as a whole that names more than the
// bucket holds. A nil resources has no end.
type resources struct {
	limit limiter.Limit

	// mu guards the fields below.
	mu sync.Mutex
	// left may be below zero: a call that looks for a refused instance does not wait.
	left float64
	at   time.Time
}

func newResources(limit limiter.Limit, now time.Time) *resources {
	return &resources{limit: limit, left: float64(limit.Burst), at: now}
}

// refill takes in the time since it was last called. The caller holds mu.
func (r *resources) refill(now time.Time) {
	r.left = min(float64(r.limit.Burst), r.left+now.Sub(r.at).Seconds()*r.limit.PerSecond)
	r.at = now
}

// wait returns when a call may name one instance at least. The error is the context's.
func (r *resources) wait(ctx context.Context) error {
	for {
		delay := r.delay(time.Now())
		if delay <= 0 {
			return nil
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// delay is the time until the bucket holds one.
func (r *resources) delay(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(now)
	if r.left >= 1 {
		return 0
	}
	return time.Duration((1-r.left)/r.limit.PerSecond*float64(time.Second)) + time.Millisecond
}

// room is how many of n instances a call may name now, one at least.
func (r *resources) room(n int) int {
	if r == nil {
		return n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(time.Now())
	return max(1, min(n, int(r.left)))
}

// spend takes the instances of a call.
func (r *resources) spend(n int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(time.Now())
	r.left -= float64(n)
}

// refused takes in that EC2 refused a call of n instances for its rate, however often it was made.
// Others use the bucket too, so the next call names half as many.
func (r *resources) refused(n int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(time.Now())
	r.left = min(r.left+float64(n), float64(n/2))
}
