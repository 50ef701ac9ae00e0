// Package start is the only code that starts instances. A start is an intent on the Node first and
// a call to the cloud second, so that a process that dies in between leaves a Node that says
// starting, which the scaler finishes.
package start

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// Trigger is what asked for a start; the metric label of stratos_nodepool_scaleup_total.
type Trigger string

// The triggers.
const (
	// TriggerFilter: the extender answered a scheduler.
	TriggerFilter Trigger = "filter"
	// TriggerPending: Stratos found a pending pod, or one that is bound to a node that does not run.
	TriggerPending Trigger = "pending"
	// TriggerCold: an instance was launched for pending pods. The pools count it, a Starter launches
	// nothing.
	TriggerCold Trigger = "cold"
)

// Refusal is why the cloud refused a start; the metric label of
// stratos_nodepool_start_failures_total.
type Refusal string

// The refusals.
const (
	RefusedCapacity Refusal = "capacity"
	RefusedStopping Refusal = "stopping"
	RefusedOther    Refusal = "refused"
)

const (
	// workers bounds writes under way at once: enough to keep the API server busy, few enough not to
	// crowd it.
	workers = 32
	// callWorkers bounds the starts that wait for the cloud. They have workers of their own: a cloud
	// that hangs holds up no write. So many that a burst goes into few calls: EC2 allows five at once
	// and two a second then, and those that change a type wait for another limit meanwhile.
	callWorkers = 256
	// retryFirst and retryMost bound the pause before a refused call is made again.
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
	// backoffFirst and backoffMost bound how long a node backs off after a failed start.
	backoffFirst = 3 * time.Minute
	backoffMost  = lifecycle.MaxBackoff
	// maxStoppingRetries is how often a start is refused because the instance is still stopping,
	// within about 1.5 s, before its claims move to another node.
	maxStoppingRetries = 4
	// giveUpTries is how often a failed start is written down at once while others write to the node.
	giveUpTries = 3
	// finishTime is how long a step that is under way when the process is told to end may go on.
	finishTime = 5 * time.Second
)

// Cloud is the part of the provider that starting needs. One that is a provider.TypeChanger too
// starts stopped instances as other types, one that is a provider.Reserver without a reservation
// that is full.
type Cloud interface {
	StartInstance(ctx context.Context, instanceID string) error
	GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error)
}

// Starter starts standby nodes and publishes the claims on them. It runs on every replica.
type Starter struct {
	reader client.Reader // a cache: patches test what they rely on
	live   client.Reader // the API server itself
	writer client.Writer
	cloud  Cloud
	state  *cluster.State
	events events.EventRecorder
	count  func(pool v1alpha1.PoolName, trigger Trigger)
	// refused is called for each start that the cloud refused and that is not retried.
	refused   func(pool v1alpha1.PoolName, why Refusal)
	nominator Nominator
	now       func() time.Time
	log       logr.Logger
	// queue are the nodes to write to, callQueue those to call the cloud for.
	queue, callQueue workqueue.TypedRateLimitingInterface[v1alpha1.NodeName]

	intents intents

	// mu guards the fields below.
	mu sync.Mutex
	// calls are the nodes whose intent stands and whose call the cloud has not accepted yet.
	calls map[v1alpha1.NodeName]openCall
	// asked is what asked first for a node that is in the queue.
	asked map[v1alpha1.NodeName]Trigger
	// written is when claims were last written to nodes that start.
	written map[v1alpha1.NodeName]time.Time
	// answers are the cloud's last ones.
	answers map[v1alpha1.NodeName]Answer
	// returned are the standby nodes that were lately to be made the first type of their class again.
	returned map[v1alpha1.NodeName]returned
	// reserved is what the reservations of standby nodes were last to be set to.
	reserved map[v1alpha1.NodeName]reservationSet
}

// Options are what a Starter needs.
type Options struct {
	// Reader may be a cache, Live is the API server itself.
	Reader client.Reader
	Live   client.Reader
	Writer client.Writer
	Cloud  Cloud
	State  *cluster.State
	Events events.EventRecorder
	// Count is called for every start that the cloud accepted.
	Count func(pool v1alpha1.PoolName, trigger Trigger)
	// Refused is called for each start that the cloud refused and that is not retried.
	Refused func(pool v1alpha1.PoolName, why Refusal)
	// Nominator nominates pods with claims; nil for none.
	Nominator Nominator
	Now       func() time.Time
	Log       logr.Logger
	// Queue is where nodes wait for their step, Calls where they wait for their call; nil for one that
	// waits by the clock of the machine.
	Queue, Calls workqueue.TypedRateLimitingInterface[v1alpha1.NodeName]
}

// New returns a Starter; it works once its Start runs.
func New(o Options) *Starter {
	if o.Queue == nil {
		o.Queue = newQueue()
	}
	if o.Calls == nil {
		o.Calls = newQueue()
	}
	if o.Nominator == nil {
		o.Nominator = noNominations{}
	}
	return &Starter{
		reader: o.Reader, live: o.Live, writer: o.Writer, cloud: o.Cloud, state: o.State, events: o.Events, count: o.Count,
		refused: o.Refused, nominator: o.Nominator,
		now: o.Now, log: o.Log, queue: o.Queue, callQueue: o.Calls,
		intents: intents{now: o.Now},
		calls:   map[v1alpha1.NodeName]openCall{}, asked: map[v1alpha1.NodeName]Trigger{},
		written:  map[v1alpha1.NodeName]time.Time{},
		answers:  map[v1alpha1.NodeName]Answer{},
		returned: map[v1alpha1.NodeName]returned{},
		reserved: map[v1alpha1.NodeName]reservationSet{},
	}
}

func newQueue() workqueue.TypedRateLimitingInterface[v1alpha1.NodeName] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[v1alpha1.NodeName](retryFirst, retryMost))
}

// NeedLeaderElection is false: a replica starts the nodes of its own extender's claims.
func (s *Starter) NeedLeaderElection() bool { return false }

// Start works until ctx ends. What is queued then is lost on purpose: intents are on the Nodes, and
// claims are made again by the scheduler's next ask. A step under way is finished, so that a
// planned end leaves no intent without its call.
func (s *Starter) Start(ctx context.Context) error {
	step, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var writes, calls sync.WaitGroup
	work(&writes, workers, func() bool { return s.next(ctx, step) })
	work(&calls, callWorkers, func() bool { return s.nextCall(ctx, step) })
	<-ctx.Done()
	defer time.AfterFunc(finishTime, cancel).Stop()
	s.queue.ShutDown()
	writes.Wait() // before the calls end: each intent that was written has one
	s.callQueue.ShutDown()
	calls.Wait()
	return nil
}

// work has so many workers take steps until there are no more.
func work(group *sync.WaitGroup, workers int, step func() bool) {
	for range workers {
		group.Go(func() {
			for step() {
			}
		})
	}
}

// StartNode makes sure that the node is being started, if it is standby, and that the claims on it
// are published. It returns at once and may be called again at will.
func (s *Starter) StartNode(node v1alpha1.NodeName) { s.startFor(node, TriggerFilter) }

// startFor is StartNode with what asked for it. Where a node is in the queue already, what asked
// first stands.
func (s *Starter) startFor(node v1alpha1.NodeName, trigger Trigger) {
	s.mu.Lock()
	if _, queued := s.asked[node]; !queued {
		s.asked[node] = trigger
	}
	s.mu.Unlock()
	s.queue.Add(node)
}

// takeAsked forgets what asked for the node, and returns it. Filter is for a node that is in the
// queue for its claims.
func (s *Starter) takeAsked(node v1alpha1.NodeName) Trigger {
	s.mu.Lock()
	defer s.mu.Unlock()
	trigger := cmp.Or(s.asked[node], TriggerFilter)
	delete(s.asked, node)
	return trigger
}

// Resume asks the cloud again for a start whose intent stands on the Node. seen is when the cloud
// was asked for the state by which the caller decided: where a call was accepted since, nothing is
// asked. A call of this process's own that the cloud has not accepted yet keeps its trigger: it is
// one start.
func (s *Starter) Resume(node v1alpha1.NodeName, trigger Trigger, seen time.Time) {
	s.mu.Lock()
	if s.answers[node].Accepted.After(seen) {
		s.mu.Unlock()
		return
	}
	if c, ours := s.calls[node]; !ours || !c.isStart() {
		s.calls[node] = openCall{trigger: trigger}
	}
	s.mu.Unlock()
	s.callQueue.Add(node)
}

// Step takes the next node of the queue one step further, as Start's workers do all the time. It
// waits while there is none. It calls no cloud.
func (s *Starter) Step(ctx context.Context) { s.next(ctx, ctx) }

// next takes one node a step further. ctx is the Starter's, step that of the calls it makes.
func (s *Starter) next(ctx, step context.Context) bool {
	node, shutdown := s.queue.Get()
	if shutdown || ctx.Err() != nil { // a queue that is shut down hands out what is left in it
		return false
	}
	defer s.queue.Done(node)
	trigger := s.takeAsked(node)
	if err := s.advance(step, node, trigger); err != nil && ctx.Err() == nil {
		s.log.Info("start will be tried again", "node", node, "error", err.Error())
		s.mu.Lock()
		s.asked[node] = trigger
		s.mu.Unlock()
		s.queue.AddRateLimited(node)
		return true
	}
	s.queue.Forget(node)
	return true
}

// advance takes the node one step further: intent, publication of claims, or the end of its drain.
// asked is what a new start is counted by.
func (s *Starter) advance(ctx context.Context, name v1alpha1.NodeName, asked Trigger) error {
	node := &corev1.Node{}
	if err := s.reader.Get(ctx, client.ObjectKey{Name: string(name)}, node); err != nil {
		if apierrors.IsNotFound(err) {
			s.state.StartFailed(name)
		}
		return client.IgnoreNotFound(err)
	}
	switch v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) {
	case v1alpha1.StateStandby:
		return s.startStandby(ctx, node, asked)
	case v1alpha1.StateStarting:
		return s.publish(ctx, node)
	case v1alpha1.StateStopping:
		return s.cancelDrain(ctx, node)
	default:
		return nil // running or on its way out: nothing to start, and claims on it are not ours to publish
	}
}

// startStandby writes the start intent and has the cloud called. Where the Node is no longer as the
// cache shows it, the next event of the Node decides what becomes of the claims.
func (s *Starter) startStandby(ctx context.Context, node *corev1.Node, asked Trigger) error {
	name := v1alpha1.NodeName(node.Name)
	uids := s.claimed(name)
	if len(uids) == 0 {
		return nil // its pods were bound elsewhere or deleted while it waited in the queue
	}
	if wait := s.coalesceFor(name); wait > 0 { // the intent was just written, and the cache does not show it yet
		s.queue.AddAfter(name, wait)
		return nil
	}
	pool, err := s.poolOf(ctx, node)
	if err != nil {
		return err
	}
	if pool.IsPaused() { // since its pods claimed room here; they go to another pool, or wait
		s.state.StartFailed(name)
		return nil
	}
	as, open := s.typeOf(node)
	if !open {
		s.state.StartFailed(name) // claimed before another node of its zone and type was refused
		return nil
	}
	if until := decide.NodeOf(node, nil).UnavailableUntil; s.now().Before(until) && !s.state.StartsDespiteBackoff(name) {
		s.releaseClaims(name, until, "it backs off after a failed start")
		return nil
	}
	if err := s.writeIntent(ctx, node, pool, as, uids); err != nil {
		return s.notWritten(ctx, node, err)
	}
	s.wrote(name)
	s.intended(withType(node, as), asked)
	return nil
}

// StartBound starts a standby node without a claim but a pod is bound to.
func (s *Starter) StartBound(ctx context.Context, node *corev1.Node) error {
	pool, err := s.poolOf(ctx, node)
	if err != nil {
		return err
	}
	as, _ := s.typeOf(node)
	if err := s.writeIntent(ctx, node, pool, as, s.claimed(v1alpha1.NodeName(node.Name))); err != nil {
		return err
	}
	s.Resume(v1alpha1.NodeName(node.Name), TriggerPending, s.now())
	return nil
}

// PoolPaused takes in that the pool of these nodes was paused before their start intents were seen.
// A step of each looks whether its intent was written: where it was not, its claims end.
func (s *Starter) PoolPaused(nodes []v1alpha1.NodeName) {
	for _, name := range nodes {
		s.startFor(name, TriggerFilter)
	}
}

// poolOf reads the node's pool, an empty one where it is gone.
func (s *Starter) poolOf(ctx context.Context, node *corev1.Node) (*v1alpha1.NodePool, error) {
	pool := &v1alpha1.NodePool{}
	name := node.Labels[v1alpha1.LabelPool]
	return pool, client.IgnoreNotFound(s.reader.Get(ctx, client.ObjectKey{Name: name}, pool))
}

func (s *Starter) writeIntent(
	ctx context.Context, node *corev1.Node, pool *v1alpha1.NodePool, as string, claims []types.UID,
) error {
	s.intents.begin()
	err := s.patch(ctx, node, transition.Starting(node, pool.Spec.Template.StartupTaints, claims, as, s.now()))
	s.intents.end(v1alpha1.NodeName(node.Name), err)
	if err == nil {
		s.nominator.ClaimsWritten(v1alpha1.NodeName(node.Name))
	}
	return err
}

// cancelDrain cancels the drain of an empty node for the pods that claimed it. Once the stop intent
// stands it cannot: the patch tests that. Then the pods that are bound here start the node again
// after its stop.
func (s *Starter) cancelDrain(ctx context.Context, node *corev1.Node) error {
	if len(s.claimed(v1alpha1.NodeName(node.Name))) == 0 ||
		v1alpha1.StopIntentOf(node).Reason != v1alpha1.StopEmpty {
		return nil
	}
	pool := &v1alpha1.NodePool{}
	name := v1alpha1.PoolName(node.Labels[v1alpha1.LabelPool])
	if err := s.reader.Get(ctx, client.ObjectKey{Name: string(name)}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.AtOpening(ctx, v1alpha1.NodeName(node.Name)) // the stop may be asked for any moment
	err := s.patch(ctx, node, transition.Running(node, transition.TemplateOf(pool, name, InstanceOf(node)), s.now()))
	if err == nil {
		return nil
	}
	if !apierrors.IsInvalid(err) {
		return s.notWritten(ctx, node, err)
	}
	live := &corev1.Node{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	state := v1alpha1.NodeState(live.Labels[v1alpha1.LabelState])
	switch intended := v1alpha1.StopIntentOf(live).Stands(); {
	case state == v1alpha1.StateRunning && !intended: // the leader was first, which looks at the claims too
		return nil
	case state != v1alpha1.StateStopping || intended:
		s.state.StartFailed(v1alpha1.NodeName(node.Name))
		return nil
	}
	return s.notWritten(ctx, node, err) // maybe only its taints have changed: once more
}

// call asks the cloud. A refusal that can pass is an error, which is retried; any other ends the
// start.
func (s *Starter) call(ctx context.Context, node *corev1.Node, trigger Trigger) error {
	name := v1alpha1.NodeName(node.Name)
	pool := v1alpha1.PoolName(node.Labels[v1alpha1.LabelPool])
	done, err := s.changeType(ctx, node)
	if done {
		return err
	}
	var offering decide.Offering
	if err == nil {
		offering, err = s.startInstance(ctx, node)
	}
	if notLeft := (*notLeftError)(nil); errors.As(err, &notLeft) {
		return s.notLeft(ctx, node, err)
	}
	s.answered(name, err)
	switch {
	case err == nil:
		s.state.MarkOfferingAvailable(offering)
		s.count(pool, trigger)
		s.events.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonScaleUp), "Start",
			"starting for pending pods")
		return nil
	case provider.IsRateLimit(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	case provider.IsInsufficientCapacity(err):
		return s.noCapacity(ctx, node, offering, err)
	case stillStopping(err):
		if len(s.claimed(name)) == 0 || s.callQueue.NumRequeues(name) < maxStoppingRetries {
			return err
		}
		return s.decline(ctx, name, declined{why: RefusedStopping, reason: v1alpha1.ReasonStartFailed,
			words: err.Error(), until: s.now().Add(decide.BackoffAfterRefusal)})
	case provider.IsInvalidConfig(err) && s.startsAsFallback(node):
		return s.startRefusedAsType(ctx, node, err)
	case provider.IsIncorrectState(err), provider.IsNotFound(err), provider.IsInvalidConfig(err):
		o := s.failure(name, err.Error(), transition.StartFailed)
		o.refusal = RefusedOther
		_, err := s.end(ctx, name, o)
		return err
	}
	return err // the network or the cloud's own trouble: readyTimeout bounds how long it is retried
}

// startInstance asks the cloud. A start that the reservation of the instance has no room for is
// made On-Demand, where the class allows that: the instance is taken out of the reservation, until
// it stops. o is what the last call needed.
func (s *Starter) startInstance(ctx context.Context, node *corev1.Node) (o decide.Offering, err error) {
	reserver, can := s.cloud.(provider.Reserver)
	name, id := v1alpha1.NodeName(node.Name), string(InstanceOf(node))
	o, _, leaves := s.state.StartOffering(node)
	// Where the Node keeps its type, the sweep has had it set as its class wants, unless that is full.
	if can && leaves && s.isOutOfReservation(node, o) {
		if err := s.leaveReservation(ctx, reserver, node); err != nil {
			return o, err
		}
	}
	err = s.cloud.StartInstance(ctx, id)
	if !can || !provider.IsReservation(err) || s.openOf(name).leftReservation {
		return o, err
	}
	if o.Reservation != "" {
		s.state.MarkOfferingUnavailable(o, s.now())
	} // else the instance is set to one that its class does without
	after, until, leaves := s.state.StartOffering(node)
	if !leaves || !until.IsZero() { // or the cloud is known to have none On-Demand either
		return o, err
	}
	if err := s.leaveReservation(ctx, reserver, node); err != nil {
		return o, err
	}
	return after, s.cloud.StartInstance(ctx, id)
}

// stillStopping reports whether the instance will take the start in a moment. One that is
// terminated, or is being terminated, never will.
func stillStopping(err error) bool {
	var wrong *provider.IncorrectStateError
	return errors.As(err, &wrong) && wrong.State != provider.InstanceTerminated &&
		wrong.State != provider.InstanceShuttingDown
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;patch
// +kubebuilder:rbac:groups=stratos.sh,resources=nodepools,verbs=list;watch

func (s *Starter) patch(ctx context.Context, node *corev1.Node, p transition.Patch) error {
	return PatchNode(ctx, s.writer, node, p)
}

// PatchNode writes a step to the Node, as far as that still is as the step tests it: otherwise the
// error is Invalid. The answer is thrown away: the cache brings the Node as it is.
func PatchNode(ctx context.Context, writer client.Writer, node *corev1.Node, p transition.Patch) error {
	if p.Empty() {
		return nil
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	return writer.Patch(ctx, target, client.RawPatch(types.JSONPatchType, p.JSON()))
}

// InstanceOf is the instance that the Node's provider id names: its last part. "" where the Node
// has none.
func InstanceOf(node *corev1.Node) v1alpha1.InstanceID {
	id := node.Spec.ProviderID
	return v1alpha1.InstanceID(id[strings.LastIndexByte(id, '/')+1:])
}
