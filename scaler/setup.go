// Package scaler runs in the background on the leader: it warms instances up, keeps pools at their
// size, completes starts, stops empty nodes and empties deleted pools. What it decides stands in
// lifecycle and plan, what it writes to Nodes in transition; the packages node, pool, pending,
// nodeclass and inventory read and act. This package makes the loops and wires them to each other.
package scaler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/start"
)

// RegisterMetrics registers all of the scaler's metrics, for their documentation.
func RegisterMetrics(registerer prometheus.Registerer) error {
	_, err := metrics.New(registerer)
	return errors.Join(err, metrics.RegisterObjects(registerer, nil, nil, nil))
}

// Setup is what SetupWithManager needs.
type Setup struct {
	Cloud provider.CloudProvider
	// Classes are the kinds of node classes that the cloud serves.
	Classes []nodeclass.Kind
	// Cluster is the value of the tag that separates this cluster's instances from all others.
	Cluster string
	// ClusterUID is the UID of the namespace kube-system. It tells the instances of two clusters with
	// one name apart. SetupWithManager reads it where it is empty.
	ClusterUID types.UID
	State      *cluster.State
	// Namespace is where the pods go that pull images.
	Namespace string
	// RequiredDaemonSetNamespaces are the namespaces without the images of whose DaemonSets no node is
	// standby. Those of other namespaces are best effort.
	RequiredDaemonSetNamespaces []string
	// ExtenderSchedulers are the schedulerNames whose pods the extender serves.
	ExtenderSchedulers []string
	// Nominate: pods of other schedulers are nominated to their claimed nodes.
	Nominate bool
	// BootstrapTokenKeyFile has the key of the bootstrap tokens of Kubeadm classes, which are made
	// only where it is set.
	BootstrapTokenKeyFile string
}

// wakeBuffer holds the wake-ups of a sweep of a large cluster, so that the sweep does not wait for
// the controllers.
const wakeBuffer = 1024

// askAgain is the time between two requests for the cluster's UID.
const askAgain = 2 * time.Second

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the scaler to the manager and returns the Starter, which runs on every
// replica and which the extender asks for starts.
func SetupWithManager(ctx context.Context, mgr manager.Manager, s Setup) (*start.Starter, error) {
	if err := inventory.AddIndexes(ctx, mgr); err != nil {
		return nil, err
	}
	if s.ClusterUID == "" {
		var err error
		if s.ClusterUID, err = clusterUID(ctx, mgr.GetAPIReader(), mgr.GetLogger()); err != nil {
			return nil, err
		}
	}
	recorder := mgr.GetEventRecorder("stratos-scaler")
	l, err := NewLoops(Parts{
		Setup: s, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: recorder,
		Ready: s.State.Ready, Metrics: ctrlmetrics.Registry, Log: mgr.GetLogger(), Now: time.Now,
		Elapsed:        sinceStart(time.Now()),
		LaunchesAtOnce: pool.LaunchesAtOnce,
	})
	if err != nil {
		return nil, err
	}
	lists := map[string]func() client.ObjectList{}
	for _, kind := range s.Classes {
		lists[kind.Name] = kind.NewList
	}
	errs := []error{
		metrics.RegisterObjects(ctrlmetrics.Registry, mgr.GetClient(), lists, time.Now),
		mgr.AddReadyzCheck("starts", func(*http.Request) error { return l.Starter.Ready() }),
		mgr.Add(l.Starter), mgr.Add(l.Placer), mgr.Add(l.Nominator), mgr.Add(l.sweep),
		l.nodes.SetupWithManager(mgr, l.Instances), l.pools.SetupWithManager(mgr, l.Pools),
		l.pending.SetupWithManager(mgr),
	}
	var wake []chan<- event.TypedGenericEvent[struct{}]
	for _, kind := range s.Classes {
		woken := make(chan event.TypedGenericEvent[struct{}], 1)
		wake = append(wake, woken)
		c := &nodeclass.Reconciler{
			Client: mgr.GetClient(), Kind: kind, Events: recorder, Now: time.Now,
			Regions: &l.sweep.Inventory.Regions, Woken: woken, FailedTypes: s.State.FailedTypes,
		}
		errs = append(errs, c.SetupWithManager(mgr))
	}
	l.sweep.RegionsChanged = func() {
		for _, w := range wake {
			select {
			case w <- event.TypedGenericEvent[struct{}]{}:
			default: // they are about to be woken
			}
		}
	}
	return l.Starter, errors.Join(errs...)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// clusterUID reads the UID of the namespace kube-system, which lives as long as its cluster. It
// waits for an API server that does not answer: nothing can be done without it, and a process that
// ended would come back after a backoff only.
func clusterUID(ctx context.Context, live client.Reader, log logr.Logger) (types.UID, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := poll.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		err := live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return false, err
		case err != nil:
			log.Error(err, "cannot read the UID of the cluster; asking again", "namespace", metav1.NamespaceSystem)
		}
		return err == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("read the UID of the cluster (namespace %s): %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}

// sinceStart is how long ago born was, by the monotonic clock that a time of this process carries.
func sinceStart(born time.Time) func() time.Duration {
	return func() time.Duration { return time.Since(born) }
}
