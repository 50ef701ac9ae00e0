package decide

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// claimedInTurn has claims for the pods on one starting node, a second apart from each other.
func claimedInTurn(t *testing.T, l *Claims, n *Node, pods ...*corev1.Pod) {
	t.Helper()
	for i, p := range pods {
		claimedAt(t, l, []*Node{n}, epoch().Add(time.Duration(i)*time.Second), p)
	}
}

func TestHigherPriorityTakesPromisedRoom(t *testing.T) {
	two := func(name string, prio int32) *corev1.Pod { return pod(name, asking("cpu", "2"), withPriority(prio)) }
	for name, c := range map[string]struct {
		holders   []*corev1.Pod
		pod       *corev1.Pod
		others    []*Node
		verdict   Kind
		displaced []types.UID
	}{
		"the lowest priority gives way": {holders: []*corev1.Pod{two("low", 1), two("mid", 5)}, pod: two("a", 10),
			verdict: Joined, displaced: []types.UID{"low"}},
		"of equal ones the youngest": {holders: []*corev1.Pod{two("old", 1), two("young", 1)}, pod: two("a", 10),
			verdict: Joined, displaced: []types.UID{"young"}},
		"as many as it takes, lowest first": {holders: []*corev1.Pod{two("low", 1), two("mid", 5)},
			pod: pod("a", asking("cpu", "3"), withPriority(10)), verdict: Joined, displaced: []types.UID{"low", "mid"}},
		"free room is taken first": {holders: []*corev1.Pod{two("low", 1)}, pod: two("a", 10), verdict: Joined},
		"another starting node's free room": {holders: []*corev1.Pod{two("low", 1), two("mid", 5)}, pod: two("a", 10),
			others: []*Node{starting("d")}, verdict: Joined},
		"equal priority holds": {holders: []*corev1.Pod{two("one", 10), two("two", 10)}, pod: two("a", 10),
			verdict: Unavailable},
		"higher priority holds": {holders: []*corev1.Pod{two("one", 11), two("two", 11)}, pod: two("a", 10),
			verdict: Unavailable},
		"where it would not suffice: nobody": {holders: []*corev1.Pod{two("low", 1), two("high", 11)},
			pod: pod("a", asking("cpu", "3"), withPriority(10)), verdict: Unavailable},
		"a host port is room too": {holders: []*corev1.Pod{pod("low", onPort(80), withPriority(1))},
			pod: pod("a", onPort(80), withPriority(10)), verdict: Joined, displaced: []types.UID{"low"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, n := NewClaims(), starting("c")
			claimedInTurn(t, l, n, c.holders...)
			d := l.Decide(ask(c.pod, append([]*Node{n}, c.others...)...), epoch().Add(time.Minute))
			if d.Kind != c.verdict {
				t.Errorf("verdict %s (%q), want %s", d.Kind, d.Refused, c.verdict)
			}
			wantDiff(t, "displaced", podsOf(d.Displaced), c.displaced)
			for _, uid := range c.displaced {
				claimOn(t, l, string(uid), "")
			}
			if want := len(c.holders) - len(c.displaced); len(l.On("c")) != want && c.verdict == Unavailable {
				t.Errorf("%d claims left on c, want %d", len(l.On("c")), want)
			}
			// The displaced are placed anew and do not take the room back.
			for _, p := range c.holders {
				if !slices.Contains(c.displaced, p.UID) {
					continue
				}
				again := l.Decide(ask(p, n, standby("e")), epoch().Add(time.Minute))
				if again.Claim == nil || again.Claim.Node != "e" {
					t.Errorf("displaced pod %s: %s, want room on e", p.Name, again.Kind)
				}
			}
		})
	}
}

// Two pods are asked about before the cluster state shows the first of them bound: together they
// would take the room claimed for a third, which would wait for a second node.
func TestPodsInFlightLeavePromisedRoom(t *testing.T) {
	for name, c := range map[string]struct {
		second  *corev1.Pod
		others  []*Node
		verdict Kind
		nodes   []v1alpha1.NodeName
	}{
		"the second finds no room any more": {second: pod("b", asking("cpu", "2")), verdict: Unavailable},
		"one that fits beside both goes there": {second: pod("b", asking("cpu", "500m")), verdict: PassClaimed,
			nodes: []v1alpha1.NodeName{"c"}},
		"a node on which nobody waits is better": {second: pod("b", asking("cpu", "500m")), others: []*Node{running("d")},
			verdict: Pass, nodes: []v1alpha1.NodeName{"d"}},
		"nor does it keep a third's pods apart": {
			second: pod("b", asking("cpu", "100m"), labelled("h"), apartFrom("h", corev1.LabelHostname)), verdict: Unavailable,
		},
		"who starts nothing is promised nothing": {
			second: pod("b", asking("cpu", "500m"), podAnnotated(v1alpha1.AnnotationIgnore, "true")), verdict: Pass,
			nodes: []v1alpha1.NodeName{"c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, n := NewClaims(), running("c")
			claimed(t, l, []*Node{standby("c")}, pod("h", asking("cpu", "1500m"), labelled("h")))
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			if d := l.Decide(ask(pod("a", asking("cpu", "2")), n), epoch()); d.Kind != PassClaimed {
				t.Fatalf("the first: verdict %s, want %s", d.Kind, PassClaimed)
			}
			question := ask(c.second, append(c.others, n)...)
			question.World = worldOf(question.Nodes...)
			d := l.Decide(question, epoch())
			if d.Kind != c.verdict {
				t.Errorf("the second: verdict %s, want %s", d.Kind, c.verdict)
			}
			wantDiff(t, "nodes", d.Nodes, c.nodes)
			claimOn(t, l, "h", "c")
		})
	}
}

func budgetOf(n int32) func(*Node) { return func(o *Node) { o.StartBudget = n } }

// Pods of one node each wait; two starts in five minutes are allowed.
func TestStartBudget(t *testing.T) {
	l := NewClaims()
	var nodes []*Node
	for i := range 6 {
		nodes = append(nodes, standby(fmt.Sprintf("n%d", i), budgetOf(2)))
	}
	other := standby("other", inPool("q", 1), budgetOf(1))
	big := func(name string) *corev1.Pod { return pod(name, asking("cpu", "4")) }
	at := func(d time.Duration) time.Time { return epoch().Add(d) }
	want := func(p *corev1.Pod, now time.Time, v Kind, nodes ...*Node) Decision {
		t.Helper()
		d := l.Decide(ask(p, nodes...), now)
		if d.Kind != v {
			t.Errorf("pod %s: verdict %s (%q), want %s", p.Name, d.Kind, d.Refused, v)
		}
		return d
	}
	limited := func(now time.Time, until time.Time) {
		t.Helper()
		if got, is := l.StartsLimited("p", now); is != !until.IsZero() || is && !got.Equal(until) {
			t.Errorf("limited %v until %v, want until %v", is, got, until)
		}
	}
	want(big("1"), at(0), Started, nodes...)
	want(big("2"), at(time.Minute), Started, nodes...)
	limited(at(time.Minute), time.Time{}) // used up, but no pod waits for it
	want(pod("small"), at(time.Minute), Started, other)
	d := want(big("3"), at(2*time.Minute), Unavailable, nodes...)
	if want := "pool p: start budget of 2 in 5m0s is used up; room is claimed by other pending pods"; !tells(d, want) {
		t.Errorf("refused %q, want %q", d.Refused, want)
	}
	limited(at(2*time.Minute), at(5*time.Minute))
	if l.ExpireBackoffs(at(5*time.Minute - 1)) {
		t.Error("expired before the first start left the window")
	}
	want(big("3"), at(5*time.Minute-1), Unavailable, nodes...)
	if !l.ExpireBackoffs(at(5*time.Minute)) || l.ExpireBackoffs(at(5*time.Minute)) {
		t.Error("the end of the limit is not told once")
	}
	want(big("3"), at(5*time.Minute), Started, nodes...)
	limited(at(5*time.Minute), time.Time{})
	want(big("4"), at(5*time.Minute), Unavailable, nodes...)
	limited(at(5*time.Minute), at(6*time.Minute))
	want(big("4"), at(6*time.Minute), Started, nodes...)
}

// TestAStartThatTheCloudNeverAcceptedIsNotCounted: one start is allowed, and a second pod waits for
// the budget.
func TestAStartThatTheCloudNeverAcceptedIsNotCounted(t *testing.T) {
	const standbyState, starting = v1alpha1.StateStandby, v1alpha1.StateStarting
	const running, stopping = v1alpha1.StateRunning, v1alpha1.StateStopping
	through := func(states ...v1alpha1.NodeState) func(*Claims) {
		return func(l *Claims) {
			for i, s := range states[1:] {
				l.ObserveNode("n0", states[i], s, epoch())
			}
		}
	}
	for name, c := range map[string]struct {
		happens func(*Claims)
		returns bool
	}{
		"refused":                      {through(standbyState, starting, standbyState), true},
		"given up before it was asked": {func(l *Claims) { l.ReleaseNode("n0") }, true},
		"given up, and seen afterwards": {func(l *Claims) {
			l.ReleaseNode("n0")
			through(standbyState, starting, standbyState)(l)
		}, true},
		"under way":                      {through(standbyState, starting, starting), false},
		"it ran":                         {through(standbyState, starting, running, stopping, standbyState), false},
		"it had to be stopped":           {through(standbyState, starting, stopping, standbyState), false},
		"it ran, and its end was missed": {through(standbyState, starting, running, standbyState, starting, stopping), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			big := func(name string) *corev1.Pod { return pod(name, asking("cpu", "4")) }
			claimed(t, l, []*Node{standby("n0", budgetOf(1))}, big("first"))
			next := standby("n1", budgetOf(1))
			if d := l.Decide(ask(big("second"), next), epoch()); d.Kind != Unavailable {
				t.Fatalf("verdict %s, want %s", d.Kind, Unavailable)
			}
			c.happens(l)
			if got := l.ExpireBackoffs(epoch()); got != c.returns {
				t.Errorf("the end of the limit is told: %v, want %v", got, c.returns)
			}
			if d := l.Decide(ask(big("second"), next), epoch()); (d.Kind == Started) != c.returns {
				t.Errorf("verdict %s", d.Kind)
			}
		})
	}
}

// TestRebudget: a larger budget brings back the pods that the smaller one kept waiting, once and
// not at the end of the window.
func TestRebudget(t *testing.T) {
	l := NewClaims()
	big := func(name string) *corev1.Pod { return pod(name, asking("cpu", "4")) }
	claimed(t, l, []*Node{standby("c", budgetOf(1))}, big("first"))
	l.Rebudget("p", epoch())
	if l.ExpireBackoffs(epoch()) {
		t.Error("something ended although nobody waited for the budget")
	}
	if d := l.Decide(ask(big("second"), standby("d", budgetOf(1))), epoch()); d.Kind != Unavailable {
		t.Fatalf("verdict %s, want %s", d.Kind, Unavailable)
	}
	now := epoch().Add(time.Minute)
	l.Rebudget("p", now)
	if _, is := l.StartsLimited("p", now); is {
		t.Error("the pool still says that it limits starts")
	}
	if !l.ExpireBackoffs(now) || l.ExpireBackoffs(now) {
		t.Error("the end of the limit is not told once")
	}
	if d := l.Decide(ask(big("second"), standby("d", budgetOf(2))), now); d.Kind != Started {
		t.Errorf("verdict %s (%q) with the larger budget, want %s", d.Kind, d.Refused, Started)
	}
}

// Joining a start, cancelling a drain and running nodes cost nothing, and a pod that another node
// serves does not wait for the budget.
func TestBudgetBoundsStartsOnly(t *testing.T) {
	for name, node := range map[string]*Node{
		"a starting node": starting("x", budgetOf(1)), "a draining node": ours("x", v1alpha1.StateStopping, emptied,
			budgetOf(1)),
		"a running node": running("x"), "another pool's standby node": standby("x", inPool("q", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{standby("c", budgetOf(1))}, pod("first", asking("cpu", "4")))
			d := l.Decide(ask(pod("a", asking("cpu", "4")), standby("d", budgetOf(1)), node), epoch())
			if len(d.Nodes) == 0 && d.Claim == nil {
				t.Errorf("verdict %s (%q), want room on x", d.Kind, d.Refused)
			}
			if _, is := l.StartsLimited("p", epoch()); is {
				t.Error("the pool says that it limits starts, but nobody waits for it")
			}
		})
	}
}

func TestExpiredTellsOnceOfABackOffThatEnds(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("a"))
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	now := epoch().Add(30 * time.Second)
	l.Overdue(now)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{time.Minute - 1, false}, {time.Minute, true}, {time.Minute, false}, {time.Hour, false}} {
		if got := l.ExpireBackoffs(now.Add(c.after)); got != c.want {
			t.Errorf("expired %v after %s, want %v", got, c.after, c.want)
		}
	}
	l.ExpireBackoffs(now.Add(3 * time.Hour))
	if len(l.futileOwners.byKey) != 0 {
		t.Error("owners are remembered forever")
	}
}

func emptied(n *Node) { n.StoppingEmpty = true }

// TestReclaimed: the drain of a node that is empty is cancelled before anything is started.
func TestReclaimed(t *testing.T) {
	for name, c := range map[string]struct {
		draining *Node
		want     Kind
	}{
		"drained because it is empty": {ours("c", v1alpha1.StateStopping, emptied), Reclaimed},
		"the stop is intended already": {ours("c", v1alpha1.StateStopping, emptied,
			func(n *Node) { n.StopIntended = true }), Started},
		"drained for another reason": {ours("c", v1alpha1.StateStopping), Started},
		"a person keeps it back":     {ours("c", v1alpha1.StateStopping, emptied, keptBackFor("x")), Started},
		"it does not fit":            {ours("c", v1alpha1.StateStopping, emptied, using("cpu", "4")), Started},
		"it bears a taint of the template": {ours("c", v1alpha1.StateStopping, emptied,
			tainted("gpu", corev1.TaintEffectNoSchedule)), Started},
		"in back-off from an earlier failure": {ours("c", v1alpha1.StateStopping, emptied, unavailableUntil(epoch().Add(1))),
			Started},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := NewClaims(), pod("a")
			d := l.Decide(ask(p, c.draining, standby("d", inPool("p", 100))), epoch())
			if d.Kind != c.want {
				t.Fatalf("verdict %s (%q), want %s", d.Kind, d.Refused, c.want)
			}
			if c.want != Reclaimed {
				claimOn(t, l, "a", "d")
				return
			}
			if len(d.Nodes) != 0 {
				t.Errorf("nodes %v are returned before the drain is known to be cancelled", d.Nodes)
			}
			claimOn(t, l, "a", "c")
			if want := "canceling the stop of node c of pool p"; d.Claim.Message != want || startedBy(d) != "c" {
				t.Errorf("starts %q, message %q; want c, %q", startedBy(d), d.Claim.Message, want)
			}
			l.ObserveNode("c", v1alpha1.StateStopping, v1alpha1.StateStopping, epoch())
			claimOn(t, l, "a", "c") // the drain's own events do not end it
			l.ObserveNode("c", v1alpha1.StateStopping, v1alpha1.StateRunning, epoch())
			if d := l.Decide(ask(p, running("c")), epoch()); d.Kind != PassClaimed {
				t.Errorf("verdict %s once it runs again, want %s", d.Kind, PassClaimed)
			}
		})
	}
}

// TestSqueeze: pods without a claim take the room.
func TestSqueeze(t *testing.T) {
	pods := func() []*corev1.Pod {
		return []*corev1.Pod{pod("old", onPort(80)), pod("young"), pod("high", asking("cpu", "2"), withPriority(5))}
	}
	for name, c := range map[string]struct {
		node *Node
		then func(*Claims)
		want []types.UID
	}{
		"all have room":                         {node: running("c")},
		"one cpu is taken: the youngest of low": {node: running("c", using("cpu", "1")), want: []types.UID{"young"}},
		"two are taken: all of low":             {node: running("c", using("cpu", "2")), want: []types.UID{"young", "old"}},
		"three are taken: the high one too": {node: running("c", using("cpu", "3")),
			want: []types.UID{"young", "old", "high"}},
		"a host port is taken": {node: running("c", func(n *Node) {
			n.Ports = fit.HostPorts(pod("x",
				onPort(80)))
		}), want: []types.UID{"old"}},
		"it does not run yet: no room is taken": {node: starting("c", using("cpu", "4"))},
		"claims on other nodes are not its":     {node: running("d", using("cpu", "4"))},
		"a nominated pod is Used, not crowded": {node: running("c", using("cpu", "2")),
			then: func(l *Claims) { l.SetNominated("high", "c") }},
		"one more beside the nominated one": {node: running("c", using("cpu", "3")),
			then: func(l *Claims) { l.SetNominated("high", "c") }, want: []types.UID{"young"}},
		"bound, and its claim is about to end": {node: running("c", holding(pods()[2]))},
		"bound beside a pod that took one cpu": {node: running("c", holding(pods()[2]), holding(pod("thief"))),
			want: []types.UID{"young"}},
		"its own port, when it is bound already": {node: running("c", holding(pods()[0]),
			func(n *Node) { n.Ports = fit.HostPorts(pods()[0]) })},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimedInTurn(t, l, standby("c"), pods()...)
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			if c.then != nil {
				c.then(l)
			}
			wantDiff(t, "squeezed out", podsOf(l.ReleaseOverflow(c.node, epoch())), c.want)
			wantDiff(t, "squeezed out the second time", podsOf(l.ReleaseOverflow(c.node, epoch())), []types.UID(nil))
			if want := 3 - len(c.want); l.Count() != want {
				t.Errorf("%d claims left, want %d", l.Count(), want)
			}
		})
	}
}

// published gives the pod a claim on the node, which names it since.
func published(t *testing.T, l *Claims, n *Node, p *corev1.Pod) {
	t.Helper()
	claimed(t, l, []*Node{n}, p)
	l.SetPublished(n.Name, []types.UID{p.UID})
}

// TestAdopt: a claim that is read from a Node's annotation, after a restart or from another
// replica.
func TestAdopt(t *testing.T) {
	for name, c := range map[string]struct {
		node   *Node
		before func(*Claims)
		// slot is what the Node names instead of the pod.
		slot types.UID
		want bool
		on   v1alpha1.NodeName
		// released are the pods that have no claim then.
		released []types.UID
	}{
		"on a starting node":           {node: starting("c"), want: true, on: "c"},
		"on a running node":            {node: running("c"), want: true, on: "c"},
		"on a standby node: it is old": {node: standby("c")},
		"on a node on its way out":     {node: ours("c", v1alpha1.StateTerminating)},
		"the pod has a claim on another, not published": {node: starting("c"), before: func(l *Claims) {
			claimed(t, l, []*Node{starting("b")}, pod("a"))
		}, want: true, on: "c"},
		"the first of two nodes that name the pod": {node: starting("c"), before: func(l *Claims) {
			published(t, l, starting("d"), pod("a"))
		}, want: true, on: "c"},
		"the second of two nodes that name the pod": {node: starting("c"), before: func(l *Claims) {
			published(t, l, starting("b"), pod("a"))
		}, on: "b"},
		"the pod has a claim on a node that runs": {node: starting("c"), before: func(l *Claims) {
			claimed(t, l, []*Node{starting("d")}, pod("a"))
			l.ObserveNode("d", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
		}, on: "d"},
		"its room has a claim that is not published": {node: starting("c"), before: func(l *Claims) {
			claimed(t, l, []*Node{starting("c")}, pod("b", asking("cpu", "4")))
		}, want: true, on: "c", released: []types.UID{"b"}},
		"its room has claims that are not published, and one would do": {node: starting("c"), before: func(l *Claims) {
			claimedAt(t, l, []*Node{starting("c")}, epoch().Add(time.Second), pod("b", asking("cpu", "2")))
			claimedAt(t, l, []*Node{starting("c")}, epoch(), pod("d", asking("cpu", "2")))
		}, want: true, on: "c", released: []types.UID{"b"}},
		"its room went to a pod of higher priority, and the annotation is older": {node: starting("c"),
			before: func(l *Claims) {
				claimed(t, l, []*Node{starting("c")}, pod("b", asking("cpu", "4"), withPriority(1)))
			}},
		"its room went to a pod, and the slot that the annotation names had ended before": {node: starting("c"),
			before: func(l *Claims) {
				claimed(t, l, []*Node{starting("c")}, pod("b", asking("cpu", "4")))
			}, slot: "owner*0"},
		"the same room, by a slot": {node: starting("c"), slot: "owner*0", want: true, on: "c"},
		"its room has a claim that is published": {node: starting("c"), before: func(l *Claims) {
			published(t, l, starting("c"), pod("b", asking("cpu", "4")))
		}},
		"what could be released does not do": {node: starting("c"), before: func(l *Claims) {
			published(t, l, starting("c"), pod("b", asking("cpu", "3500m")))
			claimed(t, l, []*Node{starting("c")}, pod("d", asking("cpu", "500m")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			if c.before != nil {
				c.before(l)
			}
			before := l.Count()
			got, released := l.Adopt(pod("a", asking("cpu", "1")), cmp.Or(c.slot, "a"), c.node, epoch())
			if got != c.want {
				t.Errorf("adopted %v, want %v", got, c.want)
			}
			claimOn(t, l, "a", c.on)
			wantDiff(t, "released", podsOf(released), c.released)
			if !got && l.Count() != before {
				t.Errorf("%d claims, want the %d of before", l.Count(), before)
			}
		})
	}
}

// A claim that is adopted counts as any other: the pod waits, the room is kept, and on a running
// node the grace runs.
func TestAnAdoptedClaimIsLikeAnyOther(t *testing.T) {
	l, p := NewClaims(), pod("a", asking("cpu", "3"))
	l.Adopt(p, p.UID, starting("c"), epoch())
	if d := l.Decide(ask(p, starting("c"), standby("d")), epoch()); d.Kind != Waiting {
		t.Errorf("verdict %s, want %s: nothing starts a second time", d.Kind, Waiting)
	}
	if d := l.Decide(ask(pod("b", asking("cpu", "2")), starting("c")), epoch()); d.Kind != Unavailable {
		t.Errorf("verdict %s for a pod that does not fit beside it, want %s", d.Kind, Unavailable)
	}
	l.Adopt(pod("r"), "r", running("d"), epoch())
	wantDiff(t, "overdue", podsOf(l.Overdue(epoch().Add(30*time.Second))), []types.UID{"r"})
}
