package waiting

import (
	"context"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lagging are informers whose handlers hear of everything late, in order: a watch that is behind
// the scheduler's.
type lagging struct {
	cache.Informers
	lag time.Duration
	// seen is called for every added or changed object when it arrives, before the lag, and told after
	// it was delivered.
	seen, told func(object any)
	// done ends the deliveries.
	done <-chan struct{}
}

// GetInformer implements cache.Informers.
func (l *lagging) GetInformer(ctx context.Context, object client.Object,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := l.Informers.GetInformer(ctx, object, opts...)
	if err != nil {
		return nil, err
	}
	return &laggingInformer{Informer: informer, lagging: l}, nil
}

type laggingInformer struct {
	cache.Informer
	lagging *lagging
}

// AddEventHandler implements cache.Informer.
func (i *laggingInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	// Far more than a test's objects: an informer that waits for a handler would be another kind of
	// lag.
	late := &lateHandler{to: handler, lagging: i.lagging, queue: make(chan delivery, 100_000)}
	go late.run()
	registration, err := i.Informer.AddEventHandler(late)
	return &lateRegistration{ResourceEventHandlerRegistration: registration, handler: late}, err
}

// lateRegistration is synced once the first list has been delivered, late.
type lateRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	handler *lateHandler
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r *lateRegistration) HasSynced() bool {
	return r.ResourceEventHandlerRegistration.HasSynced() && r.handler.first.Load() == 0
}

type delivery struct {
	due     time.Time
	deliver func()
}

// lateHandler passes everything on after the lag.
type lateHandler struct {
	to      toolscache.ResourceEventHandler
	lagging *lagging
	queue   chan delivery
	// first counts what of the first list has not been delivered yet.
	first atomic.Int64
}

func (h *lateHandler) run() {
	for {
		select {
		case <-h.lagging.done:
			return
		case d := <-h.queue:
			timer := time.NewTimer(time.Until(d.due))
			select {
			case <-h.lagging.done:
				timer.Stop()
				return
			case <-timer.C:
				d.deliver()
			}
		}
	}
}

func (h *lateHandler) later(deliver func()) {
	h.queue <- delivery{due: time.Now().Add(h.lagging.lag), deliver: deliver}
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *lateHandler) OnAdd(object any, isInInitialList bool) {
	h.lagging.seen(object)
	if isInInitialList {
		h.first.Add(1)
	}
	h.later(func() {
		h.to.OnAdd(object, isInInitialList)
		h.lagging.told(object)
		if isInInitialList {
			h.first.Add(-1)
		}
	})
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *lateHandler) OnUpdate(before, after any) {
	h.lagging.seen(after)
	h.later(func() {
		h.to.OnUpdate(before, after)
		h.lagging.told(after)
	})
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *lateHandler) OnDelete(object any) { h.later(func() { h.to.OnDelete(object) }) }
