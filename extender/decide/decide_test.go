package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

const (
	unscheduled = "node(s) were unschedulable"
	untolerated = "node(s) had untolerated taint(s)"
	promised    = "room is claimed by other pending pods"
)

// TestDecide asks once, with no claim standing unless before makes some.
func TestDecide(t *testing.T) {
	type names = []v1alpha1.NodeName
	type refused = map[v1alpha1.NodeName]string
	type want struct {
		verdict Kind
		nodes   names
		start   v1alpha1.NodeName
		claim   v1alpha1.NodeName
		refused refused
	}
	gpu := tainted("gpu", corev1.TaintEffectNoSchedule)
	filled := func(l *Claims) { claimed(t, l, []*Node{starting("c")}, pod("other", asking("cpu", "3"))) }
	startingC := "starting standby node c of pool p"

	for name, c := range map[string]struct {
		before func(*Claims)
		ask    Ask
		want   want
	}{
		"a foreign node takes the pod": {
			ask: ask(pod("a"), foreign("n")), want: want{verdict: Pass, nodes: names{"n"}},
		},
		"a running node of ours takes the pod": {
			ask: ask(pod("a"), running("n")), want: want{verdict: Pass, nodes: names{"n"}},
		},
		"an ordinary node keeps standby ones asleep": {
			ask: ask(pod("a"), standby("c"), foreign("n"), starting("d")), want: want{verdict: Pass, nodes: names{"n"}},
		},
		"the words for taints and cordons are the scheduler's own, one node for each, the first": {
			ask: ask(pod("a"), foreign("n2", gpu), foreign("n1", gpu), foreign("n4", cordoned), foreign("n3", cordoned),
				foreign("n5")),
			want: want{verdict: Pass, nodes: names{"n5"}, refused: refused{"n1": untolerated, "n3": unscheduled}},
		},
		"a tolerated taint and one that only advises do not refuse": {
			ask: ask(pod("a", tolerating("gpu")), foreign("n1", gpu), foreign("n2",
				tainted("slow", corev1.TaintEffectPreferNoSchedule))),
			want: want{verdict: Pass, nodes: names{"n1", "n2"}},
		},
		"a toleration of the cordon's taint lifts a cordon": {
			ask:  ask(pod("a", tolerating(corev1.TaintNodeUnschedulable)), running("n", cordoned)),
			want: want{verdict: Pass, nodes: names{"n"}},
		},
		"NoExecute refuses as NoSchedule does": {
			ask: ask(pod("a", podAnnotated(v1alpha1.AnnotationIgnore, "true")),
				foreign("n", tainted("x", corev1.TaintEffectNoExecute))),
			want: want{verdict: NotOurs, refused: refused{"n": untolerated}},
		},
		"nothing is known of the candidates": {
			ask: ask(pod("a")), want: want{verdict: Unavailable},
		},
		"only tainted foreign nodes: nothing to start": {
			ask:  ask(pod("a"), foreign("n", gpu), foreign("m")),
			want: want{verdict: Pass, nodes: names{"m"}, refused: refused{"n": untolerated}},
		},
		"a standby node is started": {
			ask:  ask(pod("a"), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a starting node is joined before a standby one is started, whatever its weight": {
			ask:  ask(pod("a"), standby("b", inPool("q", 100)), starting("c")),
			want: want{verdict: Joined, claim: "c", refused: refused{"c": startingC}},
		},
		"a starting node whose room is promised is not joined": {
			before: filled, ask: ask(pod("a", asking("cpu", "2")), starting("c"), standby("d")),
			want: want{verdict: Started, start: "d", claim: "d", refused: refused{"d": "starting standby node d of pool p"}},
		},
		"a starting node with room left is joined": {
			before: filled, ask: ask(pod("a"), starting("c"), standby("d")),
			want: want{verdict: Joined, claim: "c", refused: refused{"c": startingC}},
		},
		"a node that was asked to start counts as starting before its state shows it": {
			before: func(l *Claims) { claimed(t, l, []*Node{standby("c")}, pod("other")) },
			ask:    ask(pod("a"), standby("b"), standby("c")),
			want:   want{verdict: Joined, claim: "c", refused: refused{"c": startingC}},
		},
		"the higher weight wins": {
			ask:  ask(pod("a"), standby("b"), standby("c", inPool("p", 11))),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"at equal weight the smaller node wins": {
			ask:  ask(pod("a"), standby("b", offering("cpu", "8", "memory", "16Gi", "pods", "110")), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"memory counts as waste too": {
			ask:  ask(pod("a"), standby("b", offering("cpu", "4", "memory", "64Gi", "pods", "110")), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"at equal waste the first by name wins": {
			ask:  ask(pod("a"), standby("d"), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a taint of the template that the pod does not tolerate": {
			ask:  ask(pod("a"), standby("c", gpu)),
			want: want{verdict: Unavailable, refused: refused{"c": "pool p: " + untolerated}},
		},
		"a taint of the template that the pod tolerates": {
			ask:  ask(pod("a", tolerating("gpu")), standby("c", gpu)),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a standby node that a person keeps back": {
			ask:  ask(pod("a"), standby("c", keptBackFor("cordoned by another client"))),
			want: want{verdict: Unavailable, refused: refused{"c": "standby node not startable: cordoned by another client"}},
		},
		"a standby node in back-off": {
			ask: ask(pod("a"), standby("c", unavailableUntil(epoch().Add(time.Second)))),
			want: want{
				verdict: Unavailable, refused: refused{"c": "standby node backs off after a failed start"},
			},
		},
		"a standby node whose back-off is over": {
			ask:  ask(pod("a"), standby("c", unavailableUntil(epoch()))),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"nodes on their way down or still warming up are not promised": {
			ask: ask(pod("a"), ours("c", v1alpha1.StateStopping), ours("d", v1alpha1.StateWarmup),
				ours("e", v1alpha1.StateTerminating)),
			want: want{
				verdict: Unavailable, refused: refused{"c": "node is stopping; node is terminating; node is warmup"},
			},
		},
		"a pod of a DaemonSet goes to stopped nodes, and past claims": {
			before: filled, ask: ask(pod("a", asking("cpu", "4"), ownedBy("DaemonSet")), starting("c")),
			want: want{verdict: Pass, nodes: names{"c"}},
		},
		"a pod of a DaemonSet is judged by what stands on the node now": {
			ask:  ask(pod("a", ownedBy("DaemonSet")), standby("c", stopped)),
			want: want{verdict: NotOurs, refused: refused{"c": untolerated}},
		},
		"any other pod is judged by what will be left": {
			ask:  ask(pod("a"), standby("c", stopped)),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a pod of a DaemonSet starts nothing": {
			ask:  ask(pod("a", ownedBy("DaemonSet")), standby("c", gpu)),
			want: want{verdict: NotOurs, refused: refused{"c": untolerated}},
		},
		"a pod of a ReplicaSet is like any": {
			ask:  ask(pod("a", ownedBy("ReplicaSet")), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a static pod starts nothing": {
			ask:  ask(pod("a", podAnnotated(corev1.MirrorPodAnnotationKey, "hash")), standby("c")),
			want: want{verdict: NotOurs, refused: refused{"c": "a static pod starts no node"}},
		},
		"a pod that is being deleted starts nothing": {
			ask:  ask(pod("a", beingDeleted), standby("c")),
			want: want{verdict: NotOurs, refused: refused{"c": "the pod is being deleted"}},
		},
		"an ignored pod starts nothing": {
			ask:  ask(pod("a", podAnnotated(v1alpha1.AnnotationIgnore, "true")), standby("c")),
			want: want{verdict: NotOurs, refused: refused{"c": "the pod is annotated stratos.sh/ignore"}},
		},
		"ignore means true, nothing else": {
			ask:  ask(pod("a", podAnnotated(v1alpha1.AnnotationIgnore, "false")), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a pod of a scheduling group starts nothing": {
			ask:  ask(pod("a", inGroup), standby("c")),
			want: want{verdict: NotOurs, refused: refused{"c": "pods of a scheduling group start no node"}},
		},
		"the nominated node alone is no reason to start it": {
			ask:  ask(pod("a", nominatedTo("c")), standby("c")),
			want: want{verdict: NotOurs, refused: refused{"c": "only the nominated node was asked about"}},
		},
		"a nominated pod in the full pass is like any": {
			ask:  ask(pod("a", nominatedTo("c")), standby("c"), foreign("n", gpu)),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC, "n": untolerated}},
		},
		"a single candidate that is not the nominated node is started": {
			ask:  ask(pod("a", nominatedTo("x")), standby("c")),
			want: want{verdict: Started, start: "c", claim: "c", refused: refused{"c": startingC}},
		},
		"a reason for the pod as a whole is never an ordinary node's": {
			ask:  ask(pod("a", beingDeleted), foreign("b", gpu), foreign("c", gpu)),
			want: want{verdict: NotOurs, refused: refused{"b": untolerated}},
		},
		"a reason for the pod as a whole takes no other node's place": {
			ask: ask(pod("a", beingDeleted), foreign("b", gpu), standby("c")),
			want: want{
				verdict: NotOurs, refused: refused{"b": untolerated, "c": "the pod is being deleted"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			if c.before != nil {
				c.before(l)
			}
			d := l.Decide(c.ask, epoch())
			got := want{verdict: d.Kind, nodes: d.Nodes, start: startedBy(d), refused: d.Refused}
			if d.Claim != nil {
				got.claim = d.Claim.Node
			}
			if got.verdict != c.want.verdict || got.start != c.want.start || got.claim != c.want.claim {
				t.Errorf("decision %+v\nwant     %+v", got, c.want)
			}
			wantDiff(t, "nodes", got.nodes, c.want.nodes)
			wantDiff(t, "refused", got.refused, c.want.refused)
			claimOn(t, l, string(c.ask.Pod.UID), c.want.claim)
		})
	}
}

// TestDecideRoom: which pods find room on a node on which others have claims.
func TestDecideRoom(t *testing.T) {
	gpus := offering("cpu", "4", "memory", "16Gi", "pods", "110", "example.com/gpu", "2")
	for name, c := range map[string]struct {
		node   *Node
		holder *corev1.Pod
		pod    *corev1.Pod
		fits   bool
	}{
		"the rest of the cpu": {starting("c"), pod("h", asking("cpu", "3")), pod("a", asking("cpu", "1")), true},
		"more than the rest of the cpu": {starting("c"), pod("h", asking("cpu", "3")), pod("a", asking("cpu", "1001m")),
			false},
		"what bound pods use counts": {starting("c", using("cpu", "1")), pod("h", asking("cpu", "3")),
			pod("a", asking("cpu", "1m")), false},
		"the last place of a pod": {
			starting("c", offering("cpu", "4", "memory", "1Gi", "pods", "1")), pod("h", asking()), pod("a", asking()), false,
		},
		"the same host port": {starting("c"), pod("h", onPort(80)), pod("a", onPort(80)), false},
		"another host port":  {starting("c"), pod("h", onPort(80)), pod("a", onPort(81)), true},
		"the last device": {starting("c", gpus), pod("h", asking("example.com/gpu", "1")),
			pod("a", asking("example.com/gpu", "1")), true},
		"one device too many": {starting("c", gpus), pod("h", asking("example.com/gpu", "2")),
			pod("a", asking("example.com/gpu", "1")), false},
		"claims of higher priority hold":    {starting("c"), pod("h", asking("cpu", "4"), withPriority(1)), pod("a"), false},
		"claims of lower priority give way": {starting("c"), pod("h", asking("cpu", "4")), pod("a", withPriority(1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{c.node}, c.holder)
			d := l.Decide(ask(c.pod, c.node), epoch())
			if fits := d.Kind == Joined; fits != c.fits {
				t.Errorf("verdict %s, want a claim: %v", d.Kind, c.fits)
			}
			if !c.fits && d.Refused["c"] != promised {
				t.Errorf("refused %q, want %q", d.Refused, promised)
			}
		})
	}
}

func TestDecideKeepsPromisedRoomOnRunningNodes(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want Kind
	}{
		"from a pod of equal priority": {pod("a", asking("cpu", "2"), podAnnotated(v1alpha1.AnnotationIgnore, "true")),
			NotOurs},
		"from a pod of lower priority": {pod("a", asking("cpu", "2"), withPriority(-1),
			podAnnotated(v1alpha1.AnnotationIgnore, "true")), NotOurs},
		"not from a pod of higher priority":  {pod("a", asking("cpu", "2"), withPriority(1)), PassClaimed},
		"not from a pod that fits beside it": {pod("a", asking("cpu", "1")), PassClaimed},
		"not from a pod of a DaemonSet":      {pod("a", asking("cpu", "2"), ownedBy("DaemonSet")), Pass},
		"not from a pod nominated there":     {pod("a", asking("cpu", "2"), nominatedTo("c")), Pass},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{standby("c")}, pod("h", asking("cpu", "3")))
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			d := l.Decide(ask(c.pod, running("c")), epoch())
			if d.Kind != c.want {
				t.Errorf("verdict %s, want %s", d.Kind, c.want)
			}
			if c.want == NotOurs && d.Refused["c"] != promised {
				t.Errorf("node c refuses with %q, want %q", d.Refused["c"], promised)
			}
			if len(d.Displaced) == 0 {
				claimOn(t, l, "h", "c")
			}
		})
	}
}

func TestDecideReturnsTheClaimedNodeAlone(t *testing.T) {
	l, p := NewClaims(), pod("a", asking("cpu", "4"))
	claimed(t, l, []*Node{standby("c")}, p)
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	d := l.Decide(ask(p, foreign("b"), running("c"), running("d")), epoch())
	if d.Kind != PassClaimed {
		t.Errorf("verdict %s, want %s", d.Kind, PassClaimed)
	}
	wantDiff(t, "nodes", d.Nodes, []v1alpha1.NodeName{"c"})
	if d.Claim == nil || d.Claim.Node != "c" {
		t.Errorf("claim %+v, want the one on c: it ends when the pod is bound", d.Claim)
	}
}

// A claimed pod that another node can take by now goes there; its claim ends when it is bound.
func TestDecidePassesAClaimedPodToAnotherNode(t *testing.T) {
	l, p := NewClaims(), pod("a")
	claimed(t, l, []*Node{standby("c")}, p)
	d := l.Decide(ask(p, foreign("b"), starting("c")), epoch())
	if d.Kind != Pass {
		t.Errorf("verdict %s, want %s", d.Kind, Pass)
	}
	wantDiff(t, "nodes", d.Nodes, []v1alpha1.NodeName{"b"})
	claimOn(t, l, "a", "c")
}

func TestDecideAskingAgainChangesNothing(t *testing.T) {
	l, p := NewClaims(), pod("a")
	l.SetReadyIn("p", 18*time.Second)
	candidates := []*Node{standby("d"), standby("c"), foreign("b", cordoned)}
	first := l.Decide(ask(p, candidates...), epoch())
	const message = "starting standby node c of pool p (usually ready in 18s)"
	if first.Claim == nil || first.Claim.Message != message {
		t.Fatalf("first claim %+v, want message %q", first.Claim, message)
	}
	l.SetReadyIn("p", time.Minute) // the message must not follow, or each attempt is a write to the pod
	for n := range 5 {
		again := l.Decide(ask(p, candidates...), epoch().Add(time.Duration(n)*time.Second))
		if again.Kind != Waiting || startedBy(again) != "" {
			t.Errorf("ask %d: verdict %s starts %q, want %s and no start", n, again.Kind, startedBy(again), Waiting)
		}
		wantDiff(t, "what the scheduler is told", again.Refused, first.Refused)
	}
	if l.Count() != 1 {
		t.Errorf("%d claims, want 1", l.Count())
	}
}

// A pending pod's message needs a node to hang on, and the claimed one may have fallen out of the
// candidates.
func TestDecideWaitingMessageFindsANode(t *testing.T) {
	const message = "starting standby node c of pool p"
	for name, c := range map[string]struct {
		nodes []*Node
		want  map[v1alpha1.NodeName]string
	}{
		"the claimed node": {[]*Node{starting("b"), starting("c"), starting("d")},
			map[v1alpha1.NodeName]string{"c": message}},
		"the first candidate if it is not there": {[]*Node{starting("e"), starting("d")},
			map[v1alpha1.NodeName]string{"d": message}},
		"none where the view knows no candidates": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := NewClaims(), pod("a")
			claimed(t, l, []*Node{standby("c")}, p)
			wantDiff(t, "refused", l.Decide(ask(p, c.nodes...), epoch()).Refused, c.want)
		})
	}
}

func TestDecideCountsDefaultPodResources(t *testing.T) {
	two := func(n *Node) { n.Defaults = list("cpu", "2") }
	for name, c := range map[string]struct {
		change []func(*Node)
		ask    []string
		claims int
	}{
		"a pod without requests claims the pool's default": {[]func(*Node){two}, nil, 2},
		"a pod with requests claims those":                 {[]func(*Node){two}, []string{"cpu", "1"}, 4},
		"without a default it claims its place only":       {nil, nil, 6},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			n := starting("c", c.change...)
			for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
				l.Decide(ask(pod(name, asking(c.ask...)), n), epoch())
			}
			if l.Count() != c.claims {
				t.Errorf("%d claims on a node of 4 cpu, want %d", l.Count(), c.claims)
			}
		})
	}
}

// Two pools may count differently for one pod: what is summed up for one must not be used for the
// other.
func TestDecideCountsDefaultsPerPool(t *testing.T) {
	l := NewClaims()
	big := standby("b", inPool("big", 20), func(n *Node) { n.Defaults = list("cpu", "8") })
	d := l.Decide(ask(pod("a", asking()), big, standby("c")), epoch())
	if startedBy(d) != "c" {
		t.Errorf("started %q, want c: on b the pod counts as 8 cpu", startedBy(d))
	}
}

func TestMayNotStartAndCounts(t *testing.T) {
	finished := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	for name, c := range map[string]struct {
		pod           *corev1.Pod
		starts, count bool
	}{
		"any pod":             {pod("a"), true, true},
		"one of a Job":        {pod("a", ownedBy("Job")), true, true},
		"one of a DaemonSet":  {pod("a", ownedBy("DaemonSet")), false, false},
		"a static one":        {pod("a", podAnnotated(corev1.MirrorPodAnnotationKey, "x")), false, false},
		"one that has ended":  {pod("a", finished(corev1.PodSucceeded)), true, false},
		"one that has failed": {pod("a", finished(corev1.PodFailed)), true, false},
		"one that is deleted": {pod("a", beingDeleted), false, true},
		"one that is ignored": {pod("a", podAnnotated(v1alpha1.AnnotationIgnore, "true")), false, true},
		"one that is running": {pod("a", finished(corev1.PodRunning)), true, true},
		"one owned, uncontrolled, by a DaemonSet": {pod("a", ownedBy("DaemonSet"),
			func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if why := MayNotStart(c.pod); (why == "") != c.starts {
				t.Errorf("MayNotStart says %q, want a start: %v", why, c.starts)
			}
			if IsWorkloadPod(c.pod, "stratos") != c.count {
				t.Errorf("Counts is %v, want %v", !c.count, c.count)
			}
		})
	}
}

func TestPreemptable(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node *Node
		want bool
	}{
		"a foreign node":                  {pod("a"), foreign("n"), true},
		"a running node of ours":          {pod("a"), running("n"), true},
		"a cordoned node":                 {pod("a"), foreign("n", cordoned), false},
		"a node whose taint is not borne": {pod("a"), running("n", tainted("gpu", corev1.TaintEffectNoSchedule)), false},
		"a node whose taint is borne": {pod("a", tolerating("gpu")),
			running("n", tainted("gpu", corev1.TaintEffectNoSchedule)), true},
		"a standby node":                   {pod("a"), standby("n"), false},
		"a starting node":                  {pod("a"), starting("n"), false},
		"a node that is being stopped":     {pod("a"), ours("n", v1alpha1.StateStopping), false},
		"a node that is being warmed up":   {pod("a"), ours("n", v1alpha1.StateWarmup), false},
		"a node that is being thrown away": {pod("a"), ours("n", v1alpha1.StateTerminating), false},
		"a node of ours without any state": {pod("a"), ours("n", ""), false},
		"a node with a taint that advises": {pod("a"), foreign("n", tainted("x", corev1.TaintEffectPreferNoSchedule)), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewClaims().Preemptable(c.pod, c.node); got != c.want {
				t.Errorf("preemptable %v, want %v", got, c.want)
			}
		})
	}
}

func TestUsedIsNeverWrittenByDecide(t *testing.T) {
	n := starting("c", offering("cpu", "4", "memory", "16Gi", "pods", "110", "example.com/gpu", "2"))
	n.Ports = fit.HostPorts(pod("x", onPort(99)))
	l := NewClaims()
	claimed(t, l, []*Node{n}, pod("a", asking("example.com/gpu", "1"), onPort(80)),
		pod("b", asking("example.com/gpu", "1"), onPort(81)))
	wantDiff(t, "the node's gpus", n.Allocatable.Of("example.com/gpu"), int64(2))
	wantDiff(t, "the node's ports", len(n.Ports), 1)
}
