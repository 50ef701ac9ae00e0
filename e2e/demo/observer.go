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
	err := errors.Join(o.follow(ctx, &corev1.NodeList{}),
		o.follow(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault)))
	if err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func (o *observer) stop() {
	o.cancel()
	o.watches.Wait()
}

// follow notes each event with the time at which it arrived.
func (o *observer) follow(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	see := func(e watch.Event) { o.timeline.take(e, time.Now()) }
	wait, err := framework.Follow(ctx, o.rig.Client, list, see, options...)
	if err != nil {
		return err
	}
	o.watches.Go(func() {
		if err := wait(); err != nil {
			select {
			case o.broken <- err:
			default: // the first one says enough
			}
		}
	})
	return nil
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
