package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Network is a network agent as PlayLives meets it.
type Network struct {
	// Pool has one node, startup taints, and room for one pod of the Workload.
	Pool *v1alpha1.NodePool
	// Namespace and Pods are where the agent's pods are.
	Namespace string
	Pods      client.MatchingLabels
	Workload  Workload
	// OthersRemoveTaints: the network's own controller takes the startup taints away, and may do so at
	// the wrong time, because the Ready condition of the agent's pod is of the life before.
	OthersRemoveTaints bool
	// Signal is the version of the network's real signal in the life that began after the given
	// version, 0 for none so far. last is what the life before has left.
	Signal func(t *testing.T, s *Story, node string, began int64, last Last) int64
	// Boot, where it is set, is called in each life once the machine has been asked for. It waits for
	// what it needs.
	Boot func(t *testing.T, s *Story, node string, began int64, last Last)
}

// Last is what a life left behind.
type Last struct {
	// Condition is the stamp of NetworkUnavailable.
	Condition time.Time
	// Container is the newest start of a container of the agent.
	Container time.Time
}

// PlayLives makes the pool, whose node comes up once to warm up, stops it and starts it for a pod,
// l.Lives in all. In each, the node opens after the network's signal of that life, and never
// because a limit was reached.
func (l *Cluster) PlayLives(t *testing.T, network Network, class *v1alpha1.KindNodeClass) {
	t.Helper()
	l.AwaitRelease(t)
	story := l.Tell(t, network.Pool.Name, network.Namespace, network.Pods)
	l.Create(t, class, network.Pool)
	node := l.firstNode(t, network.Pool.Name)
	last := Last{}
	network.boot(t, story, node, 0, last)
	seen := story.AwaitNode(t, "its network was seen up", node, 0, func(n *corev1.Node) bool {
		return n.Annotations[v1alpha1.AnnotationNetworkSeen] != ""
	})
	l.catchUp(t, story, network)
	network.check(t, story, 1, 0, seen, last)
	l.Create(t, network.Workload.Deployment())
	for life := 2; life <= l.Lives; life++ {
		l.AwaitStandby(t, network.Pool.Name, 1)
		stopped := l.node(t, node)
		began := Version(t, stopped)
		last = story.last(stopped)
		l.Scale(t, network.Workload, 1)
		network.boot(t, story, node, began, last)
		opened := story.AwaitNode(t, "is running", node, began, func(n *corev1.Node) bool {
			return n.Labels[v1alpha1.LabelState] == string(v1alpha1.StateRunning)
		})
		l.catchUp(t, story, network)
		network.check(t, story, life, began, opened, last)
		l.AwaitReady(t, network.Workload.Namespace, network.Workload.Name, 1)
		l.Scale(t, network.Workload, 0)
	}
	l.AwaitStandby(t, network.Pool.Name, 1)
	l.neverForced(t, node)
}

func (network *Network) boot(t *testing.T, s *Story, node string, began int64, last Last) {
	if network.Boot != nil {
		network.Boot(t, s, node, began, last)
	}
}

// check compares the signal of the life with the version that opened the node.
func (network *Network) check(t *testing.T, s *Story, life int, began int64, opened *corev1.Node, last Last) {
	t.Helper()
	signal := network.Signal(t, s, opened.Name, began, last)
	ready := Version(t, s.AwaitNode(t, "its kubelet says Ready", opened.Name, began, NodeReady))
	t.Logf("life %d: asked for at version %d, kubelet Ready %d, network's signal %d, opened %d",
		life, began, ready, signal, Version(t, opened))
	if signal == 0 || signal >= Version(t, opened) {
		t.Errorf("life %d: opened at version %d, the network's signal came at %d", life, Version(t, opened), signal)
	}
	if life > 1 && s.Node(t, opened.Name, began, network.openedEarly) != nil {
		t.Errorf("life %d: pods could be bound to the node before the signal", life)
	}
}

// openedEarly finds a version before the signal in which a node that starts can take pods, or has
// lost the startup taints that only Stratos removes.
func (network *Network) openedEarly(n *corev1.Node) bool {
	has := func(n *corev1.Node, taint corev1.Taint) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) })
	}
	if n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStarting) {
		return false
	}
	lost := slices.ContainsFunc(network.Pool.Spec.Template.StartupTaints, func(taint corev1.Taint) bool {
		return !has(n, taint)
	})
	standby := corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}
	return lost && !network.OthersRemoveTaints || !n.Spec.Unschedulable && !has(n, standby)
}

// NodeReady reports whether the Node is, by its condition. A stopped one is not: Stratos writes
// that.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// last reads what the life that ended has left on the Node and on the agent's pods.
func (s *Story) last(n *corev1.Node) Last {
	last := Last{Condition: ConditionStamp(n)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if started := ContainerStart(p); p.Spec.NodeName == n.Name && started.After(last.Container) {
			last.Container = started
		}
	}
	return last
}

// ConditionStamp is when NetworkUnavailable was last written as False; zero for never.
func ConditionStamp(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

// ContainerStart is the newest start of a container of the pod that runs; zero for none.
func ContainerStart(p *corev1.Pod) time.Time {
	newest := time.Time{}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil && c.State.Running.StartedAt.After(newest) {
			newest = c.State.Running.StartedAt.Time
		}
	}
	return newest
}

// AgentReady is a Signal: the agent's pod is Ready with a container of this life.
func AgentReady(t *testing.T, s *Story, node string, began int64, last Last) int64 {
	t.Helper()
	p := s.Pod(t, node, began, func(p *corev1.Pod) bool { return Ready(p) && ContainerStart(p).After(last.Container) })
	if p == nil {
		return 0
	}
	return Version(t, p)
}

// Condition is a Signal: NetworkUnavailable=False was written in this life.
func Condition(t *testing.T, s *Story, node string, began int64, last Last) int64 {
	t.Helper()
	n := s.Node(t, node, began, func(n *corev1.Node) bool { return ConditionStamp(n).After(last.Condition) })
	if n == nil {
		return 0
	}
	return Version(t, n)
}

// Earlier is the smaller of two versions, of which 0 is none.
func Earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// catchUp writes a pod of the agent and waits until the watch shows that: it has shown then what
// was written before. The watch of Nodes has shown the version that opened the node already.
func (l *Cluster) catchUp(t *testing.T, s *Story, network Network) {
	t.Helper()
	pods := &corev1.PodList{}
	err := l.Client.List(t.Context(), pods, client.InNamespace(network.Namespace), network.Pods)
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of the network agent: %v", len(pods.Items), err)
	}
	p := &pods.Items[0]
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/seen-at":%q}}}`, p.ResourceVersion)
	if err := l.Client.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	written := Version(t, p)
	s.AwaitPod(t, "written by the test", p.Spec.NodeName, written-1, func(*corev1.Pod) bool { return true })
}

// firstNode waits for the pool's only node.
func (l *Cluster) firstNode(t *testing.T, pool string) string {
	t.Helper()
	name := ""
	Await(t, "the node of pool "+pool, func(ctx context.Context) (bool, error) {
		states, err := l.States(ctx, pool)
		for name = range states {
			return true, nil
		}
		return false, err
	})
	return name
}

func (l *Cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// neverForced fails where an event says that a limit opened the node.
func (l *Cluster) neverForced(t *testing.T, node string) {
	t.Helper()
	events := &corev1.EventList{}
	if err := l.Client.List(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == node &&
			(e.Reason == string(v1alpha1.ReasonStartupTaintsForced) || e.Reason == string(v1alpha1.ReasonNetworkNotReported)) {
			t.Errorf("event %s: %s", e.Reason, e.Message)
		}
	}
}
