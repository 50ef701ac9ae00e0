package start

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// placeWorkers: a placement is computation, and no process has many cores.
const placeWorkers = 2

// Placer claims room for pods that no scheduler asks about now. These are pods whose claimed node
// will not run after all, at once and without waiting for the scheduler's next request, and pods of
// a scheduler without the extender, and pods of the same shape as one that was just placed.
type Placer struct {
	state   *cluster.State
	starter *Starter
	events  events.EventRecorder
	now     func() time.Time
	queue   workqueue.TypedInterface[types.UID]
	// siblings are the pods that are to be placed because one of their shape was.
	siblings workqueue.TypedInterface[*cluster.Siblings]
}

// NewPlacer returns a Placer; it works once its Start runs.
func NewPlacer(v *cluster.State, starter *Starter, recorder events.EventRecorder, now func() time.Time) *Placer {
	return &Placer{state: v, starter: starter, events: recorder, now: now, queue: workqueue.NewTyped[types.UID](),
		siblings: workqueue.NewTyped[*cluster.Siblings]()}
}

// NeedLeaderElection is false: a replica moves its own claims.
func (p *Placer) NeedLeaderElection() bool { return false }

// Start works until ctx ends.
func (p *Placer) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for range placeWorkers {
		wg.Go(func() {
			for p.Step() {
			}
		})
	}
	wg.Go(func() {
		for p.StepSiblings() {
		}
	})
	<-ctx.Done()
	p.queue.ShutDown()
	p.siblings.ShutDown()
	wg.Wait()
	return nil
}

// Step places the next pod of the queue, and is false when the queue has ended. It waits while
// there is none.
func (p *Placer) Step() bool {
	uid, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	if pod := p.state.PendingPod(uid); pod != nil {
		p.Place(pod)
	}
	p.queue.Done(uid)
	return true
}

// Len is how many pods are in the queue.
func (p *Placer) Len() int { return p.queue.Len() }

// Reschedule queues the pods of claims of this replica that ended although the pods are still
// pending. It returns at once.
func (p *Placer) Reschedule(claims []decide.Claim) {
	for i := range claims {
		p.queue.Add(claims[i].Pod)
	}
}

// AddSiblings queues pods of the shape of one that was placed. It returns at once.
func (p *Placer) AddSiblings(s *cluster.Siblings) { p.siblings.Add(s) }

// StepSiblings places the next pods of one shape, and is false when the queue has ended. It waits
// while there are none. One step is a bounded number of placements, so that pods of other shapes
// do not wait for all of them.
func (p *Placer) StepSiblings() bool {
	siblings, shutdown := p.siblings.Get()
	if shutdown {
		return false
	}
	defer p.siblings.Done(siblings)
	placed, more := p.state.PlaceSiblings(siblings, p.now())
	trigger := TriggerPending
	if siblings.Asked {
		trigger = TriggerFilter
	}
	for i := range placed {
		p.act(placed[i].Pod, placed[i].Decision, trigger)
	}
	if more {
		p.siblings.Add(siblings)
	}
	return true
}

// WaitingSiblings is how many shapes are in the queue.
func (p *Placer) WaitingSiblings() int { return p.siblings.Len() }

// Startable returns the first standby node by name that fit finds room on for the pod and that
// nothing keeps from being started.
func (p *Placer) Startable(pod *corev1.Pod) (v1alpha1.NodeName, bool) {
	now := p.now()
	for _, n := range p.state.Fitting(pod) {
		if !p.startable(n, now) {
			continue
		}
		if why, _ := p.state.BudgetExhausted(n, now); why == "" {
			return n.Name, true
		}
	}
	return "", false
}

// startable reports whether the node is standby and nothing but a start budget may keep it from
// being started.
func (p *Placer) startable(n *decide.Node, now time.Time) bool {
	_, unavailable := p.state.NodeOffering(n, now)
	return n.InPool() && n.State == v1alpha1.StateStandby && n.NotStartable == "" && !now.Before(n.UnavailableUntil) &&
		unavailable.IsZero() && len(p.state.ClaimsOn(n.Name)) == 0
}

// HeldBack returns why no node is started for the pod on purpose, and until when: because the last
// start for it was futile, or because only start budgets keep the standby nodes that it fits from
// being started. "" where nothing of that is so.
func (p *Placer) HeldBack(pod *corev1.Pod) (why string, until time.Time) {
	now := p.now()
	if why, until = p.state.OwnerBackoff(pod, now); why != "" {
		return why, until
	}
	for _, n := range p.state.Fitting(pod) {
		if !p.startable(n, now) {
			continue
		}
		used, left := p.state.BudgetExhausted(n, now)
		if used == "" {
			return "", time.Time{}
		}
		if why == "" || left.Before(until) {
			why, until = used, left
		}
	}
	return why, until
}

// Place claims room for the pod where fit finds some, and starts the node where that is needed.
func (p *Placer) Place(pod *corev1.Pod) decide.Decision {
	d := p.state.Place(pod, p.now())
	if d.Kind == decide.PassClaimed { // the node runs: no write of its claims is waited for
		p.starter.nominator.ClaimsWritten(d.Claim.Node)
	}
	p.act(pod, d, TriggerPending)
	return d
}

func (p *Placer) act(pod *corev1.Pod, d decide.Decision, trigger Trigger) {
	if d.Claim != nil && d.Claim.ToCome() { // no pod to report on: the owner has an event in the end
		p.starter.startFor(d.Claim.Node, trigger)
		return
	}
	cluster.Act(pod, d, func(node v1alpha1.NodeName) { p.starter.startFor(node, trigger) }, p.events)
}
