package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider"
)

// errWatchEnded: API servers end watches after half an hour at the earliest, so one that ends in
// the play is part of a failure.
var errWatchEnded = errors.New("the API server ended a watch")

// observer looks at a rig from outside: as a client of the API server and of the cloud.
type observer struct {
	rig      *framework.Rig
	timeline *timeline
	cancel   context.CancelFunc
	watches  sync.WaitGroup
	// broken holds the end of the first watch that ended too early, until look finds it.
	broken chan error
}

// observe begins to watch Nodes and the pods of the namespace default. Call stop to end it.
func observe(ctx context.Context, r *framework.Rig) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{rig: r, timeline: newTimeline(), cancel: cancel, broken: make(chan error, 1)}
	nodes, err := r.Client.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	pods, err := r.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		nodes.Stop()
		cancel()
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	o.watches.Go(func() { o.follow(ctx, nodes) })
	o.watches.Go(func() { o.follow(ctx, pods) })
	return o, nil
}

func (o *observer) stop() {
	o.cancel()
	o.watches.Wait()
}

// follow notes each event with the time at which it arrived.
func (o *observer) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				o.breakOff(ctx, event)
				return
			}
			o.timeline.take(event, time.Now())
		}
	}
}

func (o *observer) breakOff(ctx context.Context, event watch.Event) {
	if ctx.Err() != nil {
		return
	}
	select {
	case o.broken <- fmt.Errorf("%w: %v", errWatchEnded, event.Object):
	default: // the first one says enough
	}
}

// look gathers what the table shows.
func (o *observer) look(ctx context.Context) (scene, error) {
	select {
	case err := <-o.broken:
		return scene{}, err
	default:
	}
	pool := &v1alpha1.NodePool{}
	if err := o.rig.Client.Get(ctx, client.ObjectKey{Name: poolName}, pool); err != nil {
		return scene{}, fmt.Errorf("read the pool: %w", err)
	}
	views, err := o.rig.Cloud.Snapshot(ctx)
	if err != nil {
		return scene{}, fmt.Errorf("read the cloud: %w", err)
	}
	s := scene{Pool: pool.Status, Instances: map[provider.InstanceState]int{}, Pods: o.timeline.podCounts()}
	for _, v := range views {
		s.Instances[v.State]++
	}
	return s, nil
}
