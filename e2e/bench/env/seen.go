package env

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// SeenPod is what was seen of a pod of the namespace default that exists.
type SeenPod struct {
	// Created is when the event arrived that first showed it.
	Created time.Time
	// Bound is when the event arrived that said so.
	Bound time.Time
	Node  string
}

// SeenNode is what was seen of a Node of a pool.
type SeenNode struct {
	Pool     string
	State    v1alpha1.NodeState
	Instance v1alpha1.InstanceID
	// Ready is when the event arrived that first said Ready=True in the boot.
	Ready time.Time
	boot  string
}

// View is the cluster as far as it was seen.
type View struct {
	// Pods are those of the namespace default, Nodes those of pools, by name.
	Pods  map[string]*SeenPod
	Nodes map[string]*SeenNode
	// States counts the nodes of each pool, BoundPods the pods that are bound.
	States    map[string]map[v1alpha1.NodeState]int
	BoundPods int
}

// Seen remembers what watches told, and when.
type Seen struct {
	cancel  context.CancelFunc
	watches sync.WaitGroup

	// mu guards the fields below.
	mu   sync.Mutex
	view View
	// changed is closed and replaced at each event.
	changed chan struct{}
	broken  error
}

// watchAll begins to watch the Nodes of pools and the pods of the namespace default.
func watchAll(ctx context.Context, c client.WithWatch) (*Seen, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Seen{cancel: cancel, changed: make(chan struct{}), view: View{
		Pods: map[string]*SeenPod{}, Nodes: map[string]*SeenNode{}, States: map[string]map[v1alpha1.NodeState]int{},
	}}
	for list, of := range map[client.ObjectList]client.ListOption{
		&corev1.NodeList{}: client.HasLabels{v1alpha1.LabelPool},
		&corev1.PodList{}:  client.InNamespace(metav1.NamespaceDefault),
	} {
		wait, err := framework.Follow(ctx, c, list, func(event watch.Event) { s.take(event, time.Now()) }, of)
		if err != nil {
			s.stop()
			return nil, err
		}
		s.watches.Go(func() {
			if err := wait(); err != nil {
				s.breakOff(err)
			}
		})
	}
	return s, nil
}

func (s *Seen) stop() {
	s.cancel()
	s.watches.Wait()
}

func (s *Seen) breakOff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Seen) take(event watch.Event, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := event.Object.(type) {
	case *corev1.Node:
		s.view.takeNode(o, event.Type == watch.Deleted, at)
	case *corev1.Pod:
		s.view.takePod(o, event.Type == watch.Deleted, at)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (v *View) takePod(p *corev1.Pod, gone bool, at time.Time) {
	old := v.Pods[p.Name]
	if old == nil {
		old = &SeenPod{Created: at}
		v.Pods[p.Name] = old
	}
	if p.Spec.NodeName != "" && old.Node == "" {
		old.Node, old.Bound = p.Spec.NodeName, at
		v.BoundPods++
	}
	if gone {
		if old.Node != "" {
			v.BoundPods--
		}
		delete(v.Pods, p.Name)
	}
}

func (v *View) takeNode(n *corev1.Node, gone bool, at time.Time) {
	old := v.Nodes[n.Name]
	if old == nil {
		old = &SeenNode{}
		v.Nodes[n.Name] = old
	} else {
		v.count(old, -1)
	}
	if gone {
		delete(v.Nodes, n.Name)
		return
	}
	old.Pool, old.State = n.Labels[v1alpha1.LabelPool], v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	old.Instance = framework.InstanceOf(n)
	v.count(old, 1)
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && n.Status.NodeInfo.BootID != old.boot {
			old.Ready, old.boot = at, n.Status.NodeInfo.BootID
		}
	}
}

func (v *View) count(n *SeenNode, by int) {
	if v.States[n.Pool] == nil {
		v.States[n.Pool] = map[v1alpha1.NodeState]int{}
	}
	v.States[n.Pool][n.State] += by
}

// Awake counts the pool's nodes that are starting or running.
func (v *View) Awake(pool string) int {
	return v.States[pool][v1alpha1.StateStarting] + v.States[pool][v1alpha1.StateRunning]
}

// Await waits until the condition holds, which is asked after each event and must not keep the
// View. The error says what was seen last.
func (s *Seen) Await(ctx context.Context, what string, so func(*View) bool) error {
	ctx, cancel := context.WithTimeout(ctx, framework.HangGuard)
	defer cancel()
	for {
		s.mu.Lock()
		ok, changed, broken := so(&s.view), s.changed, s.broken
		seen := fmt.Sprintf("%d pods, %d bound, nodes %v", len(s.view.Pods), s.view.BoundPods, s.view.States)
		s.mu.Unlock()
		switch {
		case ok:
			return nil
		case broken != nil:
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; seen: %s", what, ctx.Err(), seen)
		}
	}
}

// Look reads the View, which must not be kept.
func (s *Seen) Look(f func(*View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.view)
}
