package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestDevicesAreForPodsThatAskForThem: which of two standby nodes is started. The one with devices
// is first by name and has less room left with the pod.
func TestDevicesAreForPodsThatAskForThem(t *testing.T) {
	gpu := offering("cpu", "2", "memory", "8Gi", "pods", "110", "example.com/gpu", "2")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		a, b *Node
		want v1alpha1.NodeName
	}{
		"a pod that asks for none": {pod("x"), standby("a", gpu), standby("b"), "b"},
		"a pod that asks for one": {pod("x", asking("cpu", "1", "example.com/gpu", "1")), standby("a", gpu), standby("b"),
			"a"},
		"it fits on no other":     {pod("x"), standby("a", gpu), standby("b", offering("cpu", "500m", "pods", "110")), "a"},
		"the heavier pool has it": {pod("x"), standby("a", gpu, inPool("q", 20)), standby("b"), "a"},
		"both have one": {
			pod("x"), standby("a", gpu), standby("b", offering("cpu", "8", "memory", "8Gi", "pods", "110", "example.com/gpu",
				"1")), "a",
		},
		"two kinds of them": {
			pod("x", asking("cpu", "1", "example.com/gpu", "1")), standby("a",
				offering("cpu", "2", "pods", "110", "example.com/gpu", "1", "example.com/nic", "1")),
			standby("b", offering("cpu", "4", "pods", "110", "example.com/gpu", "1")), "b",
		},
		"huge pages are none": {pod("x"), standby("a", offering("cpu", "2", "pods", "110", "hugepages-2Mi", "1Gi")),
			standby("b"), "a"},
		"nor is what is used up": {
			pod("x"), standby("a", offering("cpu", "2", "pods", "110", "example.com/gpu", "0")), standby("b"), "a",
		},
		"draining nodes alike": {pod("x"), draining("a", gpu), draining("b"), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := NewClaims().Decide(ask(c.pod, c.a, c.b), epoch()); startedBy(d) != c.want {
				t.Errorf("%s %q (%q), want %q", d.Kind, startedBy(d), d.Refused, c.want)
			}
		})
	}
}

// draining is a node that is drained because it is empty.
func draining(name string, change ...func(*Node)) *Node {
	return ours(name, v1alpha1.StateStopping, append(change, func(n *Node) { n.StoppingEmpty = true })...)
}

// TestRoomFirst: node a runs, and pods of low priority have claimed all its room. Where does a pod
// of high priority go, and which claims are released?
func TestRoomFirst(t *testing.T) {
	for name, c := range map[string]struct {
		other     []*Node
		claims    bool // a pod waits for one cpu of the other node
		verdict   Kind
		on        v1alpha1.NodeName
		displaced []types.UID
	}{
		"no other node":                     {nil, false, PassClaimed, "a", []types.UID{"low-b", "low-a"}},
		"a running node with room":          {[]*Node{running("b")}, true, PassClaimed, "b", nil},
		"a running node without claims":     {[]*Node{running("b")}, false, Pass, "", nil},
		"a starting node with room":         {[]*Node{starting("b")}, true, Joined, "b", nil},
		"a draining node":                   {[]*Node{draining("b")}, false, Reclaimed, "b", nil},
		"a standby node: it is not started": {[]*Node{standby("b")}, false, PassClaimed, "a", []types.UID{"low-b", "low-a"}},
		"a starting node without room": {[]*Node{starting("b", using("cpu", "3"))}, false, PassClaimed, "a",
			[]types.UID{"low-b", "low-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimedInTurn(t, l, standby("a"), pod("low-a", asking("cpu", "2")), pod("low-b", asking("cpu", "2")))
			l.ObserveNode("a", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			if c.claims {
				claimed(t, l, []*Node{standby("b")}, pod("waits"))
				l.ObserveNode("b", v1alpha1.StateStarting, c.other[0].State, epoch())
			}
			high := pod("high", asking("cpu", "3"), withPriority(10))
			d := l.Decide(ask(high, append(c.other, running("a"))...), epoch())
			if d.Kind != c.verdict {
				t.Errorf("verdict %s (%q), want %s", d.Kind, d.Refused, c.verdict)
			}
			claimOn(t, l, "high", c.on)
			wantDiff(t, "displaced", podsOf(d.Displaced), c.displaced)
		})
	}
}
