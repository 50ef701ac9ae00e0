package limiter

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// halveAgain is how long after a refusal others do not halve the rate once more: they answer calls
	// of the same rush.
	halveAgain = time.Second
	// recoverEvery is the time without a refusal after which the rate gains one recoverStep, a part of
	// the whole.
	recoverEvery = 5 * time.Second
	recoverStep  = 1.0 / 8
	// leastPart keeps calls coming, however often the cloud refuses: only a call can show that it
	// accepts again.
	leastPart = 1.0 / 16
)

// Limiter holds one bucket for each operation that has a limit. It is safe for concurrent use.
type Limiter struct {
	buckets map[Operation]*bucket
}

// New returns a Limiter whose buckets are full. An operation without a limit is never held up.
func New(limits map[Operation]Limit) *Limiter {
	l := &Limiter{buckets: map[Operation]*bucket{}}
	for op, limit := range limits {
		if !limit.none() {
			l.buckets[op] = newBucket(limit)
		}
	}
	return l
}

// Wait returns when one call may be made; the first to ask goes first. It ends early, with the
// context's error, when the context does.
func (l *Limiter) Wait(ctx context.Context, op Operation) error {
	b := l.buckets[op]
	if b == nil {
		return nil
	}
	if err := b.wait(ctx); err != nil {
		return fmt.Errorf("%s waits for its rate limit: %w", op, err)
	}
	return nil
}

// Throttled tells that the cloud refused a call for its rate: another client uses the account too,
// or its limits are lower than we think.
func (l *Limiter) Throttled(op Operation) {
	if b := l.buckets[op]; b != nil {
		b.halve(time.Now())
	}
}

// bucket is one limit at work.
type bucket struct {
	whole Limit
	// turn lets one caller at a time wait for the next token. Without it each would hold a time of its
	// own far ahead, and a rate that changes would change nothing for those who wait already.
	turn *semaphore.Weighted
	// tokens has its own lock. Its rate is whole times part.
	tokens *rate.Limiter

	// mu guards the fields below.
	mu sync.Mutex
	// part of the whole that is used now, from leastPart to 1.
	part float64
	// changed is when part was last lowered or raised.
	changed time.Time
	// halved is when the cloud last refused a call and the rate was lowered for it.
	halved time.Time
}

func newBucket(l Limit) *bucket {
	return &bucket{whole: l, turn: semaphore.NewWeighted(1), tokens: rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst),
		part: 1}
}

func (b *bucket) wait(ctx context.Context) error {
	if err := b.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer b.turn.Release(1)
	b.recover(time.Now())
	next := b.tokens.Reserve()
	delay := next.Delay()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		next.Cancel() // the token is the next one's
		return ctx.Err()
	}
}

// halve uses half of the rate from now on. What the bucket still holds goes too: the cloud's is
// empty, or it had not refused.
func (b *bucket) halve(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.halved) < halveAgain {
		return
	}
	b.halved, b.changed = now, now
	b.part = max(leastPart, b.part/2)
	if held := int(b.tokens.TokensAt(now)); held > 0 {
		b.tokens.AllowN(now, held)
	}
	b.apply(now)
}

// recover takes the steps that are due since the last refusal.
func (b *bucket) recover(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	steps := math.Floor(float64(now.Sub(b.changed)) / float64(recoverEvery))
	if b.part == 1 || steps < 1 {
		return
	}
	b.part = min(1, b.part+steps*recoverStep)
	b.changed = b.changed.Add(time.Duration(steps) * recoverEvery)
	b.apply(now)
}

func (b *bucket) apply(now time.Time) {
	b.tokens.SetLimitAt(now, rate.Limit(b.whole.PerSecond*b.part))
	b.tokens.SetBurstAt(now, max(1, int(float64(b.whole.Burst)*b.part)))
}
