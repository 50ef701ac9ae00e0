package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Timeline records when watches first showed each step, by this machine's clock, which everything
// here runs by.
type Timeline struct {
	mu sync.Mutex // guards the maps: two watches write them
	// pods by UID, nodes by name
	pods  map[types.UID]*PodTimes
	nodes map[string]*NodeTimes
}

// PodTimes are a pod's steps.
type PodTimes struct {
	Name, Node              string
	Created, Bound, Running time.Time
}

// NodeTimes are a node's last steps: those of the life it is in.
type NodeTimes struct {
	StartRequested, Ready time.Time
	ready                 bool
}

// Record begins to watch the namespace's pods and a pool's nodes, until the test ends.
func (l *Cluster) Record(t *testing.T, namespace, pool string) *Timeline {
	t.Helper()
	line := &Timeline{pods: map[types.UID]*PodTimes{}, nodes: map[string]*NodeTimes{}}
	l.follow(t, &corev1.PodList{}, line.seePod, client.InNamespace(namespace))
	l.follow(t, &corev1.NodeList{}, line.seeNode, client.MatchingLabels{v1alpha1.LabelPool: pool})
	return line
}

func (line *Timeline) seePod(event watch.Event) {
	now := time.Now()
	p, ok := event.Object.(*corev1.Pod)
	if !ok || event.Type == watch.Deleted {
		return
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	times := line.pods[p.UID]
	if times == nil {
		times = &PodTimes{Name: p.Name, Created: now}
		line.pods[p.UID] = times
	}
	if p.Spec.NodeName != "" && times.Bound.IsZero() {
		times.Node, times.Bound = p.Spec.NodeName, now
	}
	if p.Status.Phase == corev1.PodRunning && times.Running.IsZero() {
		times.Running = now
	}
}

func (line *Timeline) seeNode(event watch.Event) {
	now := time.Now()
	n, ok := event.Object.(*corev1.Node)
	if !ok {
		return
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	times := line.nodes[n.Name]
	if times == nil {
		times = &NodeTimes{}
		line.nodes[n.Name] = times
	}
	state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	if state == v1alpha1.StateStandby {
		*times = NodeTimes{}
	}
	if state == v1alpha1.StateStarting && times.StartRequested.IsZero() {
		times.StartRequested = now
	}
	ready := false
	for _, c := range n.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if ready && !times.ready {
		times.Ready = now
	}
	times.ready = ready
}

// AwaitPod waits until the watches have shown that the pod runs, which another client may know
// earlier.
func (line *Timeline) AwaitPod(t *testing.T, uid types.UID) (PodTimes, NodeTimes) {
	t.Helper()
	Await(t, "the watches", func(context.Context) (bool, error) {
		pod, node := line.Pod(uid)
		return !pod.Running.IsZero() && !node.Ready.IsZero(), nil
	})
	return line.Pod(uid)
}

// Pod returns a pod's steps, and those of the node that it runs on.
func (line *Timeline) Pod(uid types.UID) (PodTimes, NodeTimes) {
	line.mu.Lock()
	defer line.mu.Unlock()
	var (
		pod  PodTimes
		node NodeTimes
	)
	if times := line.pods[uid]; times != nil {
		pod = *times
	}
	if times := line.nodes[pod.Node]; times != nil {
		node = *times
	}
	return pod, node
}
