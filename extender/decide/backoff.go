package decide

import "time"

// Backoff is how long to wait after failures in a row: First after one, twice as long after each
// further one, Most at most. client-go's flowcontrol.Backoff holds a clock, which a pure leaf must
// not.
type Backoff struct{ First, Max time.Duration }

// After is the wait after so many failures in a row.
func (b Backoff) After(failures int) time.Duration {
	d := b.First
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	return min(d, b.Max)
}

// backoffs are backoffs of keys that share their bounds.
type backoffs[K comparable] struct {
	Backoff
	byKey map[K]backoff
}

type backoff struct {
	until    time.Time
	failures int
	// over: ended has reported its end. The failures are remembered for a while, so that the next one
	// doubles the wait.
	over bool
}

func newBackoffs[K comparable](first, most time.Duration) backoffs[K] {
	return backoffs[K]{Backoff{first, most}, map[K]backoff{}}
}

// fail takes in a failure of the key. Failures while its backoff lasts are one.
func (b *backoffs[K]) fail(key K, now time.Time) {
	is := b.byKey[key]
	if now.Before(is.until) {
		return
	}
	is.failures++
	is.until, is.over = now.Add(b.After(is.failures)), false
	b.byKey[key] = is
}

// until is when the key's backoff ends, zero where none holds.
func (b *backoffs[K]) until(key K, now time.Time) time.Time {
	if is := b.byKey[key]; now.Before(is.until) {
		return is.until
	}
	return time.Time{}
}

// finish ends the key's backoff early. The next call of ended reports it, unless an earlier one
// did.
func (b *backoffs[K]) finish(key K) {
	is, known := b.byKey[key]
	if !known || is.over {
		delete(b.byKey, key)
		return
	}
	is.until = time.Time{}
	b.byKey[key] = is
}

// ended reports whether a backoff has ended since the last call, and forgets the old ones.
func (b *backoffs[K]) ended(now time.Time) bool {
	ended := false
	for key, is := range b.byKey {
		switch {
		case is.until.IsZero(), now.Sub(is.until) > 2*b.Max:
			ended = ended || !is.over
			delete(b.byKey, key)
		case !is.over && !now.Before(is.until):
			is.over, ended = true, true
			b.byKey[key] = is
		}
	}
	return ended
}
