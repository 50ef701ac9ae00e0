package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// A scheduler that was told that a pod's node takes it binds the pod there, whatever is decided
// until the bind is seen. If another pod claimed that room, it would lose it again, and wait for a
// second node.
func TestAPodThatIsBeingBoundKeepsItsRoom(t *testing.T) {
	old, young := pod("old", asking("cpu", "2")), pod("young", asking("cpu", "2"))
	high := pod("high", asking("cpu", "2"), withPriority(10))
	pass := func(p *corev1.Pod, nodes ...*Node) func(*Claims) {
		return func(l *Claims) { l.Decide(ask(p, nodes...), epoch()) }
	}
	for name, c := range map[string]struct {
		then      []func(*Claims)
		node      *Node
		verdict   Kind
		displaced []types.UID
	}{
		"nobody is being bound: the youngest gives way": {verdict: PassClaimed, displaced: []types.UID{"young"}},
		"the youngest is: the other one gives way": {then: []func(*Claims){pass(young, running("c"))},
			verdict: PassClaimed, displaced: []types.UID{"old"}},
		"both are: nobody gives way": {then: []func(*Claims){pass(young, running("c")),
			pass(old, running("c"))}, verdict: Started},
		"the bind failed and its node is full since": {
			then: []func(*Claims){pass(young, running("c")), pass(young, standby("d"))}, verdict: PassClaimed,
			displaced: []types.UID{"young"},
		},
		"both are on their way through a slow PreBind": {
			then: []func(*Claims){func(l *Claims) { l.SetNominated("old", "c") },
				func(l *Claims) { l.SetNominated("young", "c") }},
			node: running("c", holding(old), holding(young)), verdict: Started,
		},
		"one is bound, and its claim is about to end": {node: running("c", holding(young)), verdict: PassClaimed,
			displaced: []types.UID{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, n := NewClaims(), c.node
			if n == nil {
				n = running("c")
			}
			claimedInTurn(t, l, standby("c"), old, young)
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			for _, f := range c.then {
				f(l)
			}
			d := l.Decide(ask(high, n, standby("d")), epoch())
			if d.Kind != c.verdict {
				t.Errorf("verdict %s (%q), want %s", d.Kind, d.Refused, c.verdict)
			}
			wantDiff(t, "displaced", podsOf(d.Displaced), c.displaced)
		})
	}
}

// Where a stranger takes room, the pod that is being bound is there all the same: a pod that still
// waits loses its claim, even one of higher priority.
func TestSqueezeSparesThePodThatIsBeingBound(t *testing.T) {
	l, low, high := NewClaims(), pod("low", asking("cpu", "2")), pod("high", asking("cpu", "2"), withPriority(10))
	claimedInTurn(t, l, standby("c"), low, high)
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	if d := l.Decide(ask(low, running("c")), epoch()); d.Kind != PassClaimed {
		t.Fatalf("set-up: verdict %s", d.Kind)
	}
	wantDiff(t, "squeezed out", podsOf(l.ReleaseOverflow(running("c", using("cpu", "1")), epoch())), []types.UID{"high"})
}

// On a scheduler that does not see the claims, the pods of a burst change places: one takes the
// room claimed for another. That says nothing about the other's fit, however often it loses its
// room so. Where pods of DaemonSets take it, the pod fits our nodes only in our view of them.
func TestPodsThatChangePlacesAreNotHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		taker  func(*corev1.Pod)
		futile bool
	}{
		"room taken by other workloads":     {taker: func(*corev1.Pod) {}},
		"room taken by pods of a DaemonSet": {taker: ownedBy("DaemonSet"), futile: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			lose := func(at string) {
				claimed(t, l, []*Node{starting(at)}, pod("a", asking("cpu", "4")))
				l.ObserveNode(v1alpha1.NodeName(at), v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
				l.RecordBound(pod("taker of "+at, c.taker), v1alpha1.NodeName(at))
				l.ReleaseOverflow(running(at, using("cpu", "1")), epoch())
				claimOn(t, l, "a", "")
			}
			lose("first")
			lose("second")
			if !c.futile {
				lose("third")
			}
			if got := len(l.Overdue(epoch())); (got > 0) != c.futile {
				t.Errorf("%d futile starts, want any: %v", got, c.futile)
			}
			if why, _ := l.OwnerBackoff(pod("a"), epoch()); (why != "") != c.futile {
				t.Errorf("held back with %q, want that: %v", why, c.futile)
			}
		})
	}
}

// A pod that is bound to its claimed node takes no other pod's room, and neither does one on a node
// without claims.
func TestOnlyPodsWithoutAPromiseCountAsJoined(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{starting("c")}, pod("a"), pod("b"))
	l.RecordBound(pod("a"), "c")
	l.RecordBound(pod("x"), "d")
	if l.byNode["c"].joined || l.byNode["d"] != nil {
		t.Error("counted as a pod that was promised nothing")
	}
}
