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
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/node"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/nominate"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/pool"
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
	// NominationQueue is the Nominator's, likewise; with it nominations are written one by one.
	NominationQueue workqueue.TypedRateLimitingInterface[nominate.Task]
	// LaunchesAtOnce bounds one pool's launches under way; at least 1.
	LaunchesAtOnce int
}

// tokens are the bootstrap tokens; nil without a key.
func (p *Parts) tokens() *bootstraptoken.Tokens {
	if p.BootstrapTokenKeyFile == "" {
		return nil
	}
	return &bootstraptoken.Tokens{Writer: p.Client, KeyFile: p.BootstrapTokenKeyFile, Now: p.Now}
}

// Loops are the scaler's loops, each of which takes one step at a time. Controllers of a manager
// drive them, or a test that plays the time itself (e2e/model).
type Loops struct {
	Starter   *start.Starter
	Placer    *start.Placer
	Nominator *nominate.Nominator
	// Instances and Pools are those that the loops want looked at. They have to be read.
	Instances <-chan event.TypedGenericEvent[v1alpha1.InstanceID]
	Pools     <-chan event.TypedGenericEvent[v1alpha1.PoolName]

	nodes   *node.Reconciler
	pools   *pool.Reconciler
	pending *pending.Reconciler
	sweep   *inventory.Sweep
}

// NewLoops wires the loops to each other and to the cluster state. It registers metrics, so a
// registry takes one set of loops only.
func NewLoops(p Parts) (*Loops, error) {
	m, err := metrics.New(p.Metrics)
	if err != nil {
		return nil, err
	}
	kinds := nodeclass.Kinds{Reader: p.Client, Served: p.Classes, Tokens: p.tokens()}
	known, waiting := inventory.New(), pending.NewDemand()
	recycling, failures, starts := pool.NewDisruptions(), &pool.WarmupFailures{}, &pool.StartTimes{}
	instances := make(chan event.TypedGenericEvent[v1alpha1.InstanceID], wakeBuffer)
	changed := make(chan event.TypedGenericEvent[v1alpha1.PoolName], wakeBuffer)
	owner := inventory.Owner{Cluster: p.Cluster, UID: string(p.ClusterUID)}
	l := &Loops{Instances: instances, Pools: changed}
	l.sweep = &inventory.Sweep{
		Cloud: p.Cloud, Owner: owner, Reader: p.Client, Inventory: known, Instances: instances, Pools: changed,
		Now: p.Now, Log: p.Log.WithName("sweep"), Wake: make(chan struct{}, 1),
	}
	l.Nominator = nominate.New(nominate.Options{
		State: p.State, Live: p.Live, Writer: p.Client, Enabled: p.Nominate, ExtenderSchedulers: p.ExtenderSchedulers,
		Queue: p.NominationQueue, OneByOne: p.NominationQueue != nil,
		Count: func(r nominate.Result) { m.Nominations.WithLabelValues(string(r)).Inc() },
		Now:   p.Now, Log: p.Log.WithName("nominate"),
	})
	l.Starter = l.starter(p, m)
	l.Placer = start.NewPlacer(p.State, l.Starter, p.Events, p.Now)
	p.State.Listen(cluster.Listener{ClaimsLost: l.Placer.Reschedule, SiblingsWait: l.Placer.AddSiblings,
		PoolPaused: l.Starter.PoolPaused, NamesOutdated: l.Starter.StartNode})
	p.State.Listen(replicaNews(p.Events, m, l.Nominator))
	l.nodes = &node.Reconciler{
		Reader: p.Client, Live: p.Live, Client: p.Client, Cloud: p.Cloud, Owner: owner, Steps: node.NewStepClock(p.Elapsed),
		Namespace: decide.Namespace(p.Namespace), RequiredDaemonSets: p.RequiredDaemonSetNamespaces,
		State: p.State, Starter: l.Starter, Events: p.Events, Metrics: m, Now: p.Now, Born: p.Now(), Inventory: known,
		Warmups: failures, Starts: starts, Demand: waiting, Disruptions: recycling, Poke: l.sweep.Poke,
		Classes: kinds, Tokens: kinds.Tokens,
	}
	l.pools = &pool.Reconciler{
		Namespace: decide.Namespace(p.Namespace), RequiredDaemonSets: p.RequiredDaemonSetNamespaces,
		Client: p.Client, Cloud: p.Cloud, Owner: owner, Launcher: kinds, Classes: kinds, LaunchesAtOnce: p.LaunchesAtOnce,
		Events: p.Events, Metrics: m,
		Now: p.Now, Inventory: known, Warmups: failures, Starts: starts, State: p.State, Demand: waiting,
		Disruptions: recycling,
		Poke:        l.sweep.Poke,
		LookAgain:   func(pod client.ObjectKey) { l.pending.LookAgain(pod) },
		Wake:        func(ctx context.Context, id v1alpha1.InstanceID) { inventory.Send(ctx, instances, id) },
	}
	l.pending = pending.New(&pending.Reconciler{
		Classes: kinds,
		Reader:  p.Client, Writer: p.Client, Placer: l.Placer, State: p.State, Ready: p.Ready,
		Demand: waiting, Events: p.Events,
		CheckNomination: l.Nominator.Check,
		Schedulers:      p.ExtenderSchedulers, Now: p.Now, Errors: m.SchedulerErrors,
		PoolChanged: func(ctx context.Context, pool v1alpha1.PoolName) { inventory.Send(ctx, changed, pool) },
	})
	p.State.Listen(cluster.Listener{MayFit: l.pending.LookAgain, RemoteClaimLost: l.pending.LookAgainLater,
		ClaimsLost: l.pending.LookAgainAtLost, ClaimsOverdue: l.pending.LookAgainIfNominated,
		NodeStandby: l.pending.LookAgainAtStandby})
	return l, nil
}

func (l *Loops) starter(p Parts, m *metrics.Metrics) *start.Starter {
	return start.New(start.Options{
		Reader: p.Client, Live: p.Live, Writer: p.Client, Cloud: p.Cloud, State: p.State, Queue: p.StartQueue,
		Calls: p.CallQueue, Nominator: l.Nominator,
		Events: p.Events, Now: p.Now, Log: p.Log.WithName("start"),
		Count: func(pool v1alpha1.PoolName, trigger start.Trigger) {
			m.Scaleup.WithLabelValues(string(pool), string(trigger)).Inc()
			m.ExpectStarts(pool) // every replica starts nodes, and the leader alone writes the states
			l.sweep.Poke()
		},
		Refused: func(pool v1alpha1.PoolName, why start.Refusal) {
			m.StartFailures.WithLabelValues(string(pool), string(why)).Inc()
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
	err := l.sweep.Once(ctx, l.sweep.Now())
	return l.sweep.Pace(), err
}

// SweepPace is how long after the last sweep the next one is due, as things are now.
func (l *Loops) SweepPace() time.Duration { return l.sweep.Pace() }

// InstanceOfNode and InstancesOfPod name the instances to look at when a Node or a pod has changed.
func (l *Loops) InstanceOfNode(ctx context.Context, n *corev1.Node) []v1alpha1.InstanceID {
	return node.InstancesOfNode(ctx, n)
}

// InstancesOfPod is InstanceOfNode for a pod that is on a node, or on its way to one.
func (l *Loops) InstancesOfPod(ctx context.Context, p *corev1.Pod) []v1alpha1.InstanceID {
	return l.nodes.InstancesOfPod(ctx, p)
}
