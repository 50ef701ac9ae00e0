// Package scaler runs in the background on the leader: it warms instances up, keeps pools at their size, completes
// starts, stops empty nodes and empties deleted pools. What it decides stands in lifecycle and plan, what it writes to
// Nodes in transition; this package reads, calls and listens.
package scaler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/view"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/start"
)

// Setup is what SetupWithManager needs.
type Setup struct {
	Cloud provider.CloudProvider
	// Classes are the kinds of node classes that the cloud serves.
	Classes []ClassKind
	// Cluster is the value of the tag that separates this cluster's instances from all others.
	Cluster string
	Ledger  *claim.Ledger
	View    *view.View
	// Namespace is where the pods go that pull images.
	Namespace string
	// ExtenderSchedulers are the schedulerNames whose pods the extender serves.
	ExtenderSchedulers []string
}

// wakeBuffer holds the wake-ups of a sweep of a large cluster, so that the sweep does not wait for the controllers.
const wakeBuffer = 1024

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the scaler to the manager and returns the Starter, which runs on every replica and which the
// extender asks for starts.
func SetupWithManager(ctx context.Context, mgr manager.Manager, s Setup) (*start.Starter, error) {
	m, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	if err := addIndexes(ctx, mgr); err != nil {
		return nil, err
	}
	recorder := mgr.GetEventRecorder("stratos-scaler")
	kinds := classKinds{reader: mgr.GetClient(), kinds: s.Classes}
	inventory := newInventory()
	instances := make(chan event.TypedGenericEvent[v1alpha1.InstanceID], wakeBuffer)
	changed := make(chan event.TypedGenericEvent[v1alpha1.PoolName], wakeBuffer)
	sweep := &sweep{
		cloud: s.Cloud, cluster: s.Cluster, inventory: inventory, instances: instances, pools: changed,
		now: time.Now, log: mgr.GetLogger().WithName("sweep"), wake: make(chan struct{}, 1),
	}
	var placer *start.Placer
	starter := start.New(start.Options{
		Homeless: func(claims []claim.Claim) { placer.Homeless(claims) },
		Reader:   mgr.GetClient(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Cloud: s.Cloud, Ledger: s.Ledger,
		Events: recorder, Now: time.Now, Log: mgr.GetLogger().WithName("start"),
		Count: func(pool v1alpha1.PoolName, trigger start.Trigger) {
			m.scaleup.WithLabelValues(string(pool), string(trigger)).Inc()
			sweep.poke()
		},
		Refused: func(pool v1alpha1.PoolName, why start.Refusal) {
			m.startFailures.WithLabelValues(string(pool), string(why)).Inc()
		},
	})
	placer = start.NewPlacer(s.Ledger, s.View, starter, recorder, time.Now)
	s.View.Listen(view.Listener{Homeless: placer.Homeless})
	waiting, recycling := newDemand(), newTurns()
	nodes := &nodes{
		reader: mgr.GetClient(), live: mgr.GetAPIReader(), client: mgr.GetClient(), cloud: s.Cloud, cluster: s.Cluster, namespace: s.Namespace,
		ledger: s.Ledger, starter: starter, events: recorder, metrics: m, now: time.Now, born: time.Now(), inventory: inventory, demand: waiting, turns: recycling, poke: sweep.poke,
		witness: newWitness(steady(time.Now())),
	}
	pools := &pools{
		client: mgr.GetClient(), cloud: s.Cloud, cluster: s.Cluster, namespace: s.Namespace, launcher: kinds, classes: kinds, events: recorder, metrics: m,
		now: time.Now, inventory: inventory, ledger: s.Ledger, demand: waiting, turns: recycling, poke: sweep.poke,
		wake: func(ctx context.Context, id v1alpha1.InstanceID) { send(ctx, instances, id) },
	}
	pending := &pending{
		reader: mgr.GetClient(), writer: mgr.GetClient(), ledger: s.Ledger, placer: placer, view: s.View, ready: s.View.Ready, demand: waiting, events: recorder,
		schedulers: s.ExtenderSchedulers, recalled: map[podKey]types.UID{}, told: map[podKey]string{}, passed: map[podKey]bool{}, now: time.Now,
		failing: map[podKey]string{}, errors: m.schedulerErrors,
		poolChanged: func(ctx context.Context, pool v1alpha1.PoolName) { send(ctx, changed, pool) },
	}
	s.View.Listen(view.Listener{Storage: pending.again})
	errs := []error{mgr.Add(starter), mgr.Add(placer), mgr.Add(sweep), nodes.setup(mgr, instances), pools.setup(mgr, changed), pending.setup(mgr)}
	for _, kind := range s.Classes {
		c := &classes{client: mgr.GetClient(), kind: kind, events: recorder, now: time.Now, looks: map[string]look{}}
		errs = append(errs, c.setup(mgr))
	}
	return starter, errors.Join(errs...)
}

func addIndexes(ctx context.Context, mgr manager.Manager) error {
	indexer := mgr.GetFieldIndexer()
	return errors.Join(
		indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, indexAttachment, func(o client.Object) []string {
			if a, ok := o.(*storagev1.VolumeAttachment); ok {
				return []string{a.Spec.NodeName}
			}
			return nil
		}),
		indexer.IndexField(ctx, &corev1.Node{}, indexProviderID, func(o client.Object) []string {
			if n, ok := o.(*corev1.Node); ok && n.Spec.ProviderID != "" {
				return []string{n.Spec.ProviderID}
			}
			return nil
		}),
		indexer.IndexField(ctx, &corev1.Pod{}, indexPodNode, func(o client.Object) []string {
			if p, ok := o.(*corev1.Pod); ok && nodeOfPod(p) != "" {
				return []string{nodeOfPod(p)}
			}
			return nil
		}),
	)
}
