package fake

import "time"

// Limit is a token bucket: Burst calls at once, PerSecond more each second.
type Limit struct {
	Burst     int
	PerSecond float64
}

// PublishedLimits returns EC2's request buckets as AWS documents them (docs: "Request throttling for the Amazon EC2 API").
func PublishedLimits() map[Op]Limit {
	return map[Op]Limit{
		OpLaunch:     {Burst: 5, PerSecond: 2},
		OpStart:      {Burst: 5, PerSecond: 2},
		OpStop:       {Burst: 50, PerSecond: 5},
		OpTerminate:  {Burst: 100, PerSecond: 5},
		OpGetState:   {Burst: 100, PerSecond: 20},
		OpGet:        {Burst: 100, PerSecond: 20},
		OpList:       {Burst: 100, PerSecond: 20},
		OpUpdateTags: {Burst: 100, PerSecond: 10},
	}
}

// bucket is one Limit at work. The Cloud's lock guards it.
type bucket struct {
	limit  Limit
	tokens float64
	at     time.Time
}

func newBucket(l Limit, now time.Time) *bucket {
	return &bucket{limit: l, tokens: float64(l.Burst), at: now}
}

// take removes a token and reports whether there was one.
func (b *bucket) take(now time.Time) bool {
	b.tokens = min(float64(b.limit.Burst), b.tokens+now.Sub(b.at).Seconds()*b.limit.PerSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
