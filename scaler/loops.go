package scaler

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/start"
)

// Parts are what the loops work with.
type Parts struct {
	Setup
	// Client reads from a cache and writes to the API server, Live is the API server itself.
	Client  client.Client
	Live    client.Reader
	Events  events.EventRecorder
	Metrics prometheus.Registerer
	Log     logr.Logger
	Now     func() time.Time
	// Elapsed is how long the process has run, by a clock that is never stepped.
	Elapsed func() time.Duration
	// Ready says why the cluster state is not whole yet.
	Ready func() error
	// StartQueue and CallQueue are the Starter's; nil for ones that wait by the clock of the machine.
	StartQueue, CallQueue workqueue.TypedRateLimitingInterface[v1alpha1.NodeName]
	// LaunchesAtOnce bounds one pool's launches under way; at least 1.
	LaunchesAtOnce int
}

// Loops are the scaler's loops, each of which takes one step at a time. Controllers of a manager
// drive them, or a test that plays the time itself (e2e/model).
type Loops struct {
	Starter *start.Starter
	Placer  *start.Placer
	// Instances and Pools are those that the loops want looked at. They have to be read.
	Instances <-chan event.TypedGenericEvent[v1alpha1.InstanceID]
	Pools     <-chan event.TypedGenericEvent[v1alpha1.PoolName]

	nodes   *nodes
	pools   *pools
	pending *pending
	sweep   *sweep
}

// NewLoops wires the loops to each other and to the cluster state. It registers metrics, so a
// registry takes one set of loops only.
func NewLoops(p Parts) (*Loops, error) {
	m, err := newMetrics(p.Metrics)
	if err != nil {
		return nil, err
	}
	kinds := classKinds{reader: p.Client, kinds: p.Classes}
	known, waiting, recycling, failures := newInventory(), newDemand(), newDisruptions(), &warmups{}
	instances := make(chan event.TypedGenericEvent[v1alpha1.InstanceID], wakeBuffer)
	changed := make(chan event.TypedGenericEvent[v1alpha1.PoolName], wakeBuffer)
	owner := owner{cluster: p.Cluster, uid: string(p.ClusterUID)}
	l := &Loops{Instances: instances, Pools: changed}
	l.sweep = &sweep{
		cloud: p.Cloud, owner: owner, reader: p.Client, inventory: known, instances: instances, pools: changed,
		now: p.Now, log: p.Log.WithName("sweep"), wake: make(chan struct{}, 1),
	}
	l.Starter = l.starter(p, m)
	l.Placer = start.NewPlacer(p.State, l.Starter, p.Events, p.Now)
	p.State.Listen(cluster.Listener{ClaimsLost: l.Placer.Reschedule})
	l.nodes = &nodes{
		reader: p.Client, live: p.Live, client: p.Client, cloud: p.Cloud, owner: owner, steps: newStepClock(p.Elapsed),
		namespace: decide.Namespace(p.Namespace), requiredDaemonSets: p.RequiredDaemonSetNamespaces,
		state: p.State, starter: l.Starter, events: p.Events, metrics: m, now: p.Now, born: p.Now(), inventory: known,
		warmups: failures, demand: waiting, disruptions: recycling, poke: l.sweep.poke,
		daemons: p.State.Daemons,
	}
	l.pools = &pools{
		namespace: decide.Namespace(p.Namespace), requiredDaemonSets: p.RequiredDaemonSetNamespaces,
		client: p.Client, cloud: p.Cloud, owner: owner, launcher: kinds, classes: kinds, launchesAtOnce: p.LaunchesAtOnce,
		events: p.Events, metrics: m,
		now: p.Now, inventory: known, warmups: failures, state: p.State, demand: waiting, disruptions: recycling,
		poke:    l.sweep.poke,
		wake:    func(ctx context.Context, id v1alpha1.InstanceID) { send(ctx, instances, id) },
		daemons: p.State.Daemons,
	}
	l.pending = newPending(&pending{
		classes: kinds,
		reader:  p.Client, writer: p.Client, placer: l.Placer, state: p.State, ready: p.Ready,
		demand: waiting, events: p.Events,
		schedulers: p.ExtenderSchedulers, now: p.Now, errors: m.schedulerErrors,
		poolChanged: func(ctx context.Context, pool v1alpha1.PoolName) { send(ctx, changed, pool) },
	})
	p.State.Listen(cluster.Listener{StorageChanged: l.pending.again, RemoteClaimLost: l.pending.againLater})
	return l, nil
}

func (l *Loops) starter(p Parts, m *metrics) *start.Starter {
	return start.New(start.Options{
		Reader: p.Client, Live: p.Live, Writer: p.Client, Cloud: p.Cloud, State: p.State, Queue: p.StartQueue,
		Calls:  p.CallQueue,
		Events: p.Events, Now: p.Now, Log: p.Log.WithName("start"),
		Count: func(pool v1alpha1.PoolName, trigger start.Trigger) {
			m.scaleup.WithLabelValues(string(pool), string(trigger)).Inc()
			l.sweep.poke()
		},
		Refused: func(pool v1alpha1.PoolName, why start.Refusal) {
			m.startFailures.WithLabelValues(string(pool), string(why)).Inc()
		},
	})
}

// StepInstance takes one instance and its Node one step further.
func (l *Loops) StepInstance(ctx context.Context, id v1alpha1.InstanceID) (ctrl.Result, error) {
	return l.nodes.Reconcile(ctx, id)
}

// StepPool brings one pool closer to its spec.
func (l *Loops) StepPool(ctx context.Context, pool v1alpha1.PoolName) (ctrl.Result, error) {
	return l.pools.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: string(pool)}})
}

// StepPod looks at one pod that may wait.
func (l *Loops) StepPod(ctx context.Context, pod types.NamespacedName) (ctrl.Result, error) {
	return l.pending.Reconcile(ctx, reconcile.Request{NamespacedName: pod})
}

// Sweep lists the cloud's instances once. It returns how long to rest at most until the next sweep,
// less where something is on its way by then.
func (l *Loops) Sweep(ctx context.Context) (time.Duration, error) {
	err := l.sweep.once(ctx, l.sweep.now())
	return l.sweep.pace(), err
}

// SweepPace is how long after the last sweep the next one is due, as things are now.
func (l *Loops) SweepPace() time.Duration { return l.sweep.pace() }

// InstanceOfNode and InstancesOfPod name the instances to look at when a Node or a pod has changed.
func (l *Loops) InstanceOfNode(ctx context.Context, n *corev1.Node) []v1alpha1.InstanceID {
	return byNode(ctx, n)
}

// InstancesOfPod is InstanceOfNode for a pod that is on a node, or on its way to one.
func (l *Loops) InstancesOfPod(ctx context.Context, p *corev1.Pod) []v1alpha1.InstanceID {
	return l.nodes.byPod(ctx, p)
}
