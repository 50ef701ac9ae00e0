package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func TestObserve(t *testing.T) {
	for name, c := range map[string]struct {
		before, state v1alpha1.NodeState
		drops         bool
	}{
		"the start intent shows":                   {v1alpha1.StateStandby, v1alpha1.StateStarting, false},
		"something else changed while it starts":   {v1alpha1.StateStarting, v1alpha1.StateStarting, false},
		"it runs":                                  {v1alpha1.StateStarting, v1alpha1.StateRunning, false},
		"standby again is a start that failed":     {v1alpha1.StateStarting, v1alpha1.StateStandby, true},
		"standby still says nothing of our intent": {v1alpha1.StateStandby, v1alpha1.StateStandby, false},
		"first seen standby":                       {"", v1alpha1.StateStandby, false},
		"stopped by others while it runs":          {v1alpha1.StateRunning, v1alpha1.StateStandby, true},
		"and started again since":                  {v1alpha1.StateRunning, v1alpha1.StateStarting, true},
		"it is being stopped":                      {v1alpha1.StateRunning, v1alpha1.StateStopping, true},
		"it is being replaced":                     {v1alpha1.StateStarting, v1alpha1.StateTerminating, true},
		"it warms up again":                        {v1alpha1.StateStandby, v1alpha1.StateWarmup, true},
		"its state was taken away":                 {v1alpha1.StateStarting, "", true},
		"its state is one that nobody knows":       {v1alpha1.StateStarting, "asleep", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{starting("c")}, pod("b"), pod("a"))
			claimed(t, l, []*Node{starting("other")}, pod("x"))
			got := podsOf(l.ObserveNode("c", c.before, c.state, epoch()))
			var want []types.UID
			if c.drops {
				want = []types.UID{"a", "b"}
			}
			wantDiff(t, "claims that ended", got, want)
			if left, want := len(l.On("c")), 2-len(want); left != want {
				t.Errorf("%d claims left on c, want %d", left, want)
			}
			claimOn(t, l, "x", "other")
		})
	}
}

// A standby node counts as starting from the ask until its state moves or its start fails.
func TestAskedNodeCountsAsStarting(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*Claims)
		want Kind
	}{
		"until then": {func(*Claims) {}, Joined},
		"still shown standby": {func(l *Claims) { l.ObserveNode("c", v1alpha1.StateStandby, v1alpha1.StateStandby, epoch()) },
			Joined},
		"the start failed": {func(l *Claims) { l.ReleaseNode("c") }, Started},
		"it ran and came back": {func(l *Claims) { l.ObserveNode("c", v1alpha1.StateStandby, v1alpha1.StateRunning, epoch()) },
			Started},
		"it was given up later": {func(l *Claims) { l.ObserveNode("c", v1alpha1.StateStandby, v1alpha1.StateStarting, epoch()) },
			Started},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{standby("c")}, pod("first"))
			c.then(l)
			if d := l.Decide(ask(pod("second"), standby("c")), epoch()); d.Kind != c.want {
				t.Errorf("verdict %s, want %s", d.Kind, c.want)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("a", asking("cpu", "4")))
	c, had := l.Release("a", "c", epoch())
	if !had || c.Node != "c" || c.Ref != (PodRef{Namespace: "default", Name: "a", UID: "a"}) {
		t.Errorf("released %+v, %v", c, had)
	}
	if _, had := l.Release("a", "c", epoch()); had {
		t.Error("released twice")
	}
	if l.Count() != 0 || len(l.On("c")) != 0 || l.HasClaim("a") {
		t.Errorf("%d claims left", l.Count())
	}
	if d := l.Decide(ask(pod("b", asking("cpu", "4")), standby("c")), epoch()); d.Claim == nil {
		t.Errorf("released room is not given to the next pod: %s %q", d.Kind, d.Refused)
	}
}

func TestFailedMovesNothingElse(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("b", asking("cpu", "2")), pod("a", asking("cpu", "2")))
	claimed(t, l, []*Node{standby("d")}, pod("x"))
	wantDiff(t, "claims that ended", podsOf(l.ReleaseNode("c")), []types.UID{"a", "b"})
	wantDiff(t, "claims that ended the second time", podsOf(l.ReleaseNode("c")), []types.UID(nil))
	claimOn(t, l, "x", "d")
}

// The next ask finds another node: c backs off by then.
func TestClaimsMoveWhenTheirNodeFails(t *testing.T) {
	l, p := NewClaims(), pod("a")
	claimed(t, l, []*Node{standby("c"), standby("d")}, p)
	l.ReleaseNode("c")
	d := l.Decide(ask(p, standby("c", unavailableUntil(epoch().Add(time.Minute))), standby("d")), epoch())
	if d.Kind != Started || startedBy(d) != "d" {
		t.Errorf("verdict %s starts %q, want %s of d", d.Kind, startedBy(d), Started)
	}
}

func TestOverdue(t *testing.T) {
	l, p := NewClaims(), pod("a")
	now := epoch()
	for round, step := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		step *= time.Minute
		if d := l.Decide(ask(p, standby("c")), now); d.Kind != Started {
			t.Fatalf("round %d: verdict %s, want %s", round, d.Kind, Started)
		}
		if over := l.Overdue(now.Add(time.Hour)); len(over) != 0 {
			t.Fatalf("round %d: overdue before the node runs: %v", round, podsOf(over))
		}
		l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, now)
		if over := l.Overdue(now.Add(30*time.Second - 1)); len(over) != 0 {
			t.Fatalf("round %d: overdue too soon", round)
		}
		now = now.Add(30 * time.Second)
		wantDiff(t, "overdue", podsOf(l.Overdue(now)), []types.UID{"a"})
		last := l.Decide(ask(p, standby("c")), now.Add(step-1))
		if last.Kind != Unavailable {
			t.Errorf("round %d: verdict %s just before %s are over, want %s", round, last.Kind, step, Unavailable)
		}
		want := "the last node started for this pod did not take it; not starting another for " + step.String()
		if !tells(last, want) {
			t.Errorf("round %d: refused %q, want %q", round, last.Refused, want)
		}
		now = now.Add(step)
	}
}

// The 30 s count from when the node was first seen running, not from its latest event.
func TestOverdueCountsFromTheFirstSightOfRunning(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("a"))
	for s := range 3 {
		l.ObserveNode("c", v1alpha1.StateRunning, v1alpha1.StateRunning, epoch().Add(time.Duration(s)*15*time.Second))
	}
	wantDiff(t, "overdue", podsOf(l.Overdue(epoch().Add(30*time.Second))), []types.UID{"a"})
}

// A scheduler that is still at its first pass over a large burst asks about the last of its pods
// long after their nodes run.
func TestOverdueWaitsForTheFirstPass(t *testing.T) {
	asks := func(l *Claims, pod types.UID, at time.Duration) {
		l.Decide(ask(podNamed(pod), running("c")), epoch().Add(at))
	}
	for name, c := range map[string]struct {
		// then happens after the node of a, b and d has come to run, at the epoch.
		then    func(*Claims)
		at      time.Duration
		overdue []types.UID
	}{
		"nobody is asked about":           {func(*Claims) {}, 30 * time.Second, []types.UID{"a", "b", "d"}},
		"one was asked about a while ago": {func(l *Claims) { asks(l, "a", 20*time.Second) }, 50*time.Second - 1, nil},
		"one was asked about, and then nothing": {func(l *Claims) { asks(l, "a", 20*time.Second) }, 50 * time.Second,
			[]types.UID{"a", "b", "d"}},
		"one was bound": {func(l *Claims) { l.Release("a", "c", epoch().Add(20*time.Second)) },
			50*time.Second - 1, nil},
		"one was bound, and then nothing": {func(l *Claims) { l.Release("a", "c", epoch().Add(20*time.Second)) },
			50 * time.Second, []types.UID{"b", "d"}},
		"one is gone, which says nothing": {func(l *Claims) { l.Release("a", "", epoch().Add(20*time.Second)) },
			30 * time.Second, []types.UID{"b", "d"}},
		"one is asked about again, which says nothing": {func(l *Claims) {
			for s := range time.Duration(29) {
				asks(l, "a", s*time.Second+1)
			}
		}, 30*time.Second + 1, []types.UID{"a", "b", "d"}},
		"one of a later burst says nothing": {func(l *Claims) {
			l.Decide(ask(pod("late"), starting("e")), epoch())
			l.ObserveNode("e", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch().Add(10*time.Second))
			l.Release("late", "e", epoch().Add(25*time.Second))
		}, 30 * time.Second, []types.UID{"a", "b", "d"}},
		"for five minutes at most": {func(l *Claims) {
			asks(l, "a", 4*time.Minute+50*time.Second)
		}, 5 * time.Minute, []types.UID{"a", "b", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimedAt(t, l, []*Node{starting("c")}, epoch().Add(-time.Minute), pod("a"), pod("b"), pod("d"))
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			c.then(l)
			wantDiff(t, "overdue", podsOf(l.Overdue(epoch().Add(c.at))), c.overdue)
		})
	}
}

func podNamed(uid types.UID) *corev1.Pod { return pod(string(uid)) }

// A Deployment's pods come and go: what is remembered of futile starts is remembered of the owner,
// until one of its pods is bound to its claimed node. The backoff after the second failure is twice
// as long as after the first, unless the first was forgotten in between.
func TestBackOffIsTheOwners(t *testing.T) {
	replica := func(name string) *corev1.Pod { return pod(name, controlledBy("rs")) }
	stranger := pod("stranger", controlledBy("other"))
	for name, c := range map[string]struct {
		bound v1alpha1.NodeName // of the pod that gets a claim after the first backoff
		step  time.Duration
	}{
		"its pod goes where it was promised: forgiven": {"c", time.Minute},
		"its pod goes elsewhere: not forgiven":         {"d", 2 * time.Minute},
		"its pod is deleted: not forgiven":             {"", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := NewClaims(), epoch()
			futile := func(p *corev1.Pod) {
				claimedAt(t, l, []*Node{standby("c")}, now, p)
				l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, now)
				now = now.Add(30 * time.Second)
				wantDiff(t, "overdue", podsOf(l.Overdue(now)), []types.UID{p.UID})
			}
			rests := func(step time.Duration) {
				t.Helper()
				if d := l.Decide(ask(replica("replaces it"), standby("c")), now.Add(step-1)); d.Kind != Unavailable {
					t.Errorf("another pod of the owner: %s just before %s are over, want %s", d.Kind, step, Unavailable)
				}
				if d := l.Decide(ask(stranger, standby("c")), now.Add(step-1)); d.Kind != Started {
					t.Errorf("a pod of another owner: %s, want %s", d.Kind, Started)
				}
				l.ReleaseNode("c")
				now = now.Add(step)
			}
			futile(replica("1"))
			rests(time.Minute)
			claimedAt(t, l, []*Node{standby("c")}, now, replica("2"))
			l.Release("2", c.bound, epoch())
			l.ReleaseNode("c")
			futile(replica("3"))
			rests(c.step)
		})
	}
}

// Ten replicas that wait for one node and do not fit it after all are one failure, not ten
// doublings.
func TestPodsOfOneOwnerThatAreOverdueTogetherAreOneFailure(t *testing.T) {
	l, p := NewClaims(), func(name string) *corev1.Pod { return pod(name, controlledBy("rs")) }
	claimed(t, l, []*Node{standby("c")}, p("1"), p("2"), p("3"))
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	now := epoch().Add(30 * time.Second)
	wantDiff(t, "overdue", podsOf(l.Overdue(now)), []types.UID{"1", "2", "3"})
	if d := l.Decide(ask(p("4"), standby("c")), now.Add(time.Minute)); d.Kind != Started {
		t.Errorf("after one minute: %s (%q), want %s", d.Kind, d.Refused, Started)
	}
}

// A backoff keeps a pod from waking nodes, not from nodes that run.
func TestBackOffStillPasses(t *testing.T) {
	l, p := NewClaims(), pod("a")
	claimed(t, l, []*Node{standby("c")}, p)
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	now := epoch().Add(30 * time.Second)
	l.Overdue(now)
	if d := l.Decide(ask(p, standby("d"), running("c")), now); d.Kind != Pass {
		t.Errorf("verdict %s, want %s", d.Kind, Pass)
	}
}

// A volume may take minutes to be made after the scheduler has decided: that start was not futile.
func TestNominatedClaims(t *testing.T) {
	late := epoch().Add(10 * time.Minute)
	for name, c := range map[string]struct {
		nominations []v1alpha1.NodeName
		overdue     []types.UID
	}{
		"on its way to its claimed node":  {[]v1alpha1.NodeName{"c"}, nil},
		"on its way to another node":      {[]v1alpha1.NodeName{"d"}, []types.UID{"a"}},
		"the nomination was taken back":   {[]v1alpha1.NodeName{"c", ""}, []types.UID{"a"}},
		"never nominated":                 {nil, []types.UID{"a"}},
		"nominated, taken back and again": {[]v1alpha1.NodeName{"c", "", "c"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			claimed(t, l, []*Node{standby("c")}, pod("a"))
			l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			for _, n := range c.nominations {
				l.SetNominated("a", n)
			}
			wantDiff(t, "overdue", podsOf(l.Overdue(late)), c.overdue)
		})
	}
}

// The cluster state counts a nominated pod as used, so its claim must not count again.
func TestNominatedClaimIsNotCountedTwice(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("a", asking("cpu", "2")))
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	candidate := running("c", using("cpu", "2"))
	if d := l.Decide(ask(pod("b", asking("cpu", "2")), candidate), epoch()); len(d.Nodes) > 0 {
		t.Fatalf("verdict %s with the claim still counted", d.Kind)
	}
	l.SetNominated("a", "c")
	if d := l.Decide(ask(pod("b", asking("cpu", "2")), candidate), epoch()); d.Kind != PassClaimed {
		t.Errorf("verdict %s, want %s", d.Kind, PassClaimed)
	}
}

func TestUnasked(t *testing.T) {
	const wait = 100 * time.Millisecond
	ran := epoch().Add(time.Second)
	for name, c := range map[string]struct {
		running bool
		before  time.Duration // before the node ran, the last ask then; 0: only when it was claimed
		asked   time.Duration // after the node ran; negative: not asked
		at      time.Duration
		want    []v1alpha1.NodeName
	}{
		"asked just before: at once":          {running: true, before: lag - 1, asked: -1, want: []v1alpha1.NodeName{"c"}},
		"asked long before":                   {running: true, before: lag, asked: -1, at: wait - 1},
		"asked just before and again":         {running: true, before: 1, asked: 1, at: time.Hour},
		"not asked since its node runs":       {running: true, asked: -1, at: wait, want: []v1alpha1.NodeName{"c"}},
		"not yet long enough":                 {running: true, asked: -1, at: wait - 1},
		"asked in the moment it ran":          {running: true, asked: 0, at: wait},
		"asked a moment after":                {running: true, asked: time.Millisecond, at: time.Hour},
		"its node does not run: no reason to": {asked: -1, at: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := NewClaims(), pod("a")
			claimed(t, l, []*Node{standby("c")}, p)
			if c.before > 0 {
				l.Decide(ask(p, starting("c")), ran.Add(-c.before))
			}
			if c.running {
				l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, ran)
			}
			if c.asked >= 0 {
				l.Decide(ask(p, running("c", cordoned)), ran.Add(c.asked))
			}
			wantDiff(t, "unasked", l.Unasked(ran.Add(c.at), wait), c.want)
		})
	}
}

func TestUnaskedIsSortedAndNamesANodeOnce(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("d")}, pod("1"), pod("2"))
	claimed(t, l, []*Node{standby("c")}, pod("3"))
	for _, n := range []v1alpha1.NodeName{"c", "d"} {
		l.ObserveNode(n, v1alpha1.StateStarting, v1alpha1.StateRunning, epoch().Add(time.Second))
	}
	wantDiff(t, "unasked", l.Unasked(epoch().Add(time.Minute), time.Second), []v1alpha1.NodeName{"c", "d"})
}

func TestWaitingCountsPodsOfNodesThatDoNotRun(t *testing.T) {
	l := NewClaims()
	claimed(t, l, []*Node{standby("c")}, pod("1"), pod("2"))
	claimed(t, l, []*Node{standby("d", inPool("q", 1))}, pod("3"))
	wantDiff(t, "waiting", l.PendingPerPool(), map[v1alpha1.PoolName]int{"p": 2, "q": 1})
	l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	wantDiff(t, "waiting", l.PendingPerPool(), map[v1alpha1.PoolName]int{"q": 1})
	if l.Count() != 3 {
		t.Errorf("%d claims, want 3: those of running nodes stand until the pod is bound", l.Count())
	}
}

func TestPodRefObjectIsWhatEventsRegard(t *testing.T) {
	p := PodRef{Namespace: "n", Name: "a", UID: "u"}.Object()
	want := &corev1.Pod{}
	want.APIVersion, want.Kind, want.Namespace, want.Name, want.UID = "v1", "Pod", "n", "a", "u"
	wantDiff(t, "object", p, want)
}
