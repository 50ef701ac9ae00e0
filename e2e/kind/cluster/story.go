package cluster

import (
	"context"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Story keeps every version of a pool's Nodes and of the pods of its network agent, as the API
// server wrote them. Resource versions give the order of all of them: no clock is read.
type Story struct {
	mu    sync.Mutex // guards both: two watches append
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

// Tell begins to watch, until the test ends. agents selects the pods of the network agent.
func (l *Cluster) Tell(t *testing.T, pool, namespace string, agents client.MatchingLabels) *Story {
	t.Helper()
	s := &Story{}
	l.follow(t, &corev1.NodeList{}, s.see, client.MatchingLabels{v1alpha1.LabelPool: pool})
	l.follow(t, &corev1.PodList{}, s.see, client.InNamespace(namespace), agents)
	return s
}

func (s *Story) see(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := event.Object.(type) {
	case *corev1.Node:
		s.nodes = append(s.nodes, o)
	case *corev1.Pod:
		s.pods = append(s.pods, o)
	}
}

// Version is the place of an object's version in the order of all writes.
func Version(t *testing.T, o client.Object) int64 {
	t.Helper()
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatalf("resource version of %s: %v", o.GetName(), err)
	}
	return version
}

// Node returns the first version of the Node after the given one that the condition holds for, else
// nil.
func (s *Story) Node(t *testing.T, name string, after int64, holds func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.Name == name && Version(t, n) > after && holds(n) {
			return n
		}
	}
	return nil
}

// Pod returns the first version of a pod on the node after the given one that the condition holds
// for, else nil.
func (s *Story) Pod(t *testing.T, node string, after int64, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.Spec.NodeName == node && Version(t, p) > after && holds(p) {
			return p
		}
	}
	return nil
}

// AwaitNode is Node for a version that comes.
func (s *Story) AwaitNode(t *testing.T, what, name string, after int64, holds func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var n *corev1.Node
	Await(t, "node "+name+": "+what, func(context.Context) (bool, error) {
		n = s.Node(t, name, after, holds)
		return n != nil, nil
	})
	return n
}

// AwaitPod is Pod for a version that comes.
func (s *Story) AwaitPod(t *testing.T, what, node string, after int64, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	Await(t, "the agent's pod on node "+node+": "+what, func(context.Context) (bool, error) {
		p = s.Pod(t, node, after, holds)
		return p != nil, nil
	})
	return p
}
