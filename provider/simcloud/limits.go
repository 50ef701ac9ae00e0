package simcloud

import "time"

// Limit is a token bucket: Burst at once, PerSecond more each second.
type Limit struct {
	Burst     int
	PerSecond float64
}

// Bucket is one Limit at work. It has no lock of its own.
type Bucket struct {
	limit  Limit
	tokens float64
	at     time.Time
}

// NewBucket returns a full bucket.
func NewBucket(l Limit, now time.Time) *Bucket {
	return &Bucket{limit: l, tokens: float64(l.Burst), at: now}
}

// grain is what a bucket may lack: a client that waits for whole nanoseconds is not to be refused
// for the rest of one.
const grain = 1e-6

// Take removes n tokens and reports whether there were as many; otherwise it removes none.
func (b *Bucket) Take(now time.Time, n int) bool {
	b.tokens = min(float64(b.limit.Burst), b.tokens+now.Sub(b.at).Seconds()*b.limit.PerSecond)
	b.at = now
	if b.tokens+grain < float64(n) {
		return false
	}
	b.tokens -= float64(n)
	return true
}
