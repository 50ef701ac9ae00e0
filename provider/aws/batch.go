package aws

import (
	"context"
	"slices"
	"sync"
)

// batcher makes calls for many instances of calls for one. The first leaves at once; what comes
// while the limit or the cloud keeps it waiting leaves together. Callers keep a one-item signature
// and never know.
type batcher[T any] struct {
	// most bounds the instances of one call.
	most int
	// room is how many of n instances a call may hold now, one at least; nil: all.
	room func(n int) int
	// admit returns when a call may be made: what gathers until then goes into it.
	admit func(ctx context.Context) error
	// send makes one call for the ids and reports what became of each as soon as it is known. What it
	// leaves out has failed with the error that it returns. It may go on after the batcher is free for
	// the next call, through later.
	send func(ctx context.Context, ids []string, report func(id string, value T, err error)) (later func(), err error)
	// size is told how many instances went into a call.
	size func(n int)

	// mu guards the fields below.
	mu sync.Mutex
	// waiting are the instances that no call has taken yet, in the order in which they were asked for.
	waiting []*item[T]
	// busy: a goroutine takes what is waiting.
	busy bool
}

// item is one instance that at least one caller waits for.
type item[T any] struct {
	id string
	// callers counts those who still wait.
	callers int
	// flight is the call that it went into, nil while it waits.
	flight *flight
	// done is closed when err is known.
	done chan struct{}
	once sync.Once
	// value and err are what became of it.
	value T
	err   error
}

func (i *item[T]) finish(value T, err error) {
	i.once.Do(func() {
		i.value, i.err = value, err
		close(i.done)
	})
}

// flight is a call under way. It is given up when no caller waits for one of its instances.
type flight struct {
	callers int
	cancel  context.CancelFunc
}

// do asks for one instance and returns what became of it. A context that ends before its call is
// made takes the instance out of it.
func (b *batcher[T]) do(ctx context.Context, id string) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	i := b.join(id)
	select {
	case <-i.done:
		return i.value, i.err
	case <-ctx.Done():
		b.leave(i)
		return none, ctx.Err()
	}
}

func (b *batcher[T]) join(id string) *item[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.waiting {
		if i.id == id {
			i.callers++
			return i
		}
	}
	i := &item[T]{id: id, callers: 1, done: make(chan struct{})}
	b.waiting = append(b.waiting, i)
	if !b.busy {
		b.busy = true
		go b.run()
	}
	return i
}

func (b *batcher[T]) leave(i *item[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i.callers--
	if i.flight != nil {
		if i.flight.callers--; i.flight.callers == 0 {
			i.flight.cancel()
		}
		return
	}
	if i.callers == 0 {
		b.waiting = slices.DeleteFunc(b.waiting, func(w *item[T]) bool { return w == i })
	}
}

// run makes calls until nothing is waiting.
func (b *batcher[T]) run() {
	for b.anyone() {
		ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // `settle` cancels it
		err := b.admit(ctx)
		items := b.take(cancel)
		if len(items) == 0 {
			cancel()
			continue // all gave up while the limit held the call
		}
		if err != nil {
			settle(items, nil, err, cancel)
			continue
		}
		b.call(ctx, items, cancel)
	}
}

func (b *batcher[T]) call(ctx context.Context, items []*item[T], cancel context.CancelFunc) {
	b.size(len(items))
	ids, byID := make([]string, len(items)), make(map[string]*item[T], len(items))
	for n, i := range items {
		ids[n], byID[i.id] = i.id, i
	}
	later, err := b.send(ctx, ids, func(id string, value T, err error) {
		if i := byID[id]; i != nil {
			i.finish(value, err)
		}
	})
	settle(items, later, err, cancel)
}

// settle ends the items, at once or when what comes later is done.
func settle[T any](items []*item[T], later func(), err error, cancel context.CancelFunc) {
	end := func() {
		var none T
		for _, i := range items {
			i.finish(none, err)
		}
		cancel()
	}
	if later == nil {
		end()
		return
	}
	go func() {
		later()
		end()
	}()
}

// anyone reports whether something is waiting, and ends the run where nothing is.
func (b *batcher[T]) anyone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = len(b.waiting) > 0
	return b.busy
}

// take takes what is waiting into one flight, no more than most.
func (b *batcher[T]) take(cancel context.CancelFunc) []*item[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), b.most)
	if b.room != nil && n > 0 {
		n = b.room(n)
	}
	items := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	f := &flight{cancel: cancel}
	for _, i := range items {
		i.flight = f
		f.callers += i.callers
	}
	return items
}
