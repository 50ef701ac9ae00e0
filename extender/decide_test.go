package extender

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// recordedStarter notes what it is asked to start.
type recordedStarter []v1alpha1.NodeName

func (s *recordedStarter) StartNode(n v1alpha1.NodeName) { *s = append(*s, n) }

type decideRig struct {
	*Extender
	ledger *decide.Claims
	starts recordedStarter
	events *events.FakeRecorder
}

func newDecideRig(nodes ...*corev1.Node) *decideRig {
	v, l := newTestView(epoch)
	for _, n := range nodes {
		v.SetNode(n)
	}
	r := &decideRig{ledger: l, events: events.NewFakeRecorder(100)}
	r.Extender = &Extender{state: v, starter: &r.starts, events: r.events, now: epoch}
	return r
}

func (r *decideRig) Filter(pod *corev1.Pod, candidates []string) FilterAnswer {
	return r.Extender.Filter(pod, NamesOf(candidates))
}

func (r *decideRig) said() []string {
	var out []string
	for {
		select {
		case e := <-r.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func TestFilterStartsANodeAndSaysSoOnce(t *testing.T) {
	r := newDecideRig(poolNode("a", v1alpha1.StateStandby))
	for n := range 3 {
		got := r.Filter(cpuPod("x", ""), []string{"a"})
		want := FilterAnswer{Decision: "waiting",
			FailedUnresolvable: map[string]string{"a": "starting standby node a of pool p"}}
		if n == 0 {
			want.Decision = "started"
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("ask %d (-want +got):\n%s", n, diff)
		}
	}
	if !slices.Equal(r.starts, recordedStarter{"a"}) {
		t.Errorf("starts asked %v, want a once", r.starts)
	}
	if said := r.said(); len(said) != 1 ||
		!strings.Contains(said[0], "StandbyStarting starting standby node a of pool p") {
		t.Errorf("events %q, want one StandbyStarting", said)
	}
}

// A pod that joins has its claim published too, and an event of its own.
func TestFilterPublishesClaimsOfPodsThatJoin(t *testing.T) {
	r := newDecideRig(poolNode("a", v1alpha1.StateStandby))
	for n := range 3 {
		p := testPod(fmt.Sprint(n))
		r.Filter(p, []string{"a"})
	}
	if len(r.starts) != 3 || len(r.said()) != 3 {
		t.Errorf("%d starts asked, want one for each of 3 claims", len(r.starts))
	}
}

func TestFilterStartsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		nodes      []*corev1.Node
		pod        *corev1.Pod
		candidates []string
		want       FilterAnswer
	}{
		"an ordinary node takes the pod": {
			[]*corev1.Node{poolNode("a", v1alpha1.StateStandby), poolNode("n", "")}, cpuPod("x", ""), []string{"a", "n"},
			FilterAnswer{Decision: "pass", Nodes: []v1alpha1.NodeName{"n"}},
		},
		"a node that the view has not seen": {
			nil, cpuPod("x", ""), []string{"new"}, FilterAnswer{Decision: "unavailable"},
		},
		"the nominated node alone": {
			[]*corev1.Node{poolNode("a", v1alpha1.StateStandby)}, cpuPod("x", "", onItsWay("a")), []string{"a"},
			FilterAnswer{Decision: "not-ours",
				FailedUnresolvable: map[string]string{"a": "only the nominated node was asked about"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDecideRig(c.nodes...)
			if diff := cmp.Diff(c.want, r.Filter(c.pod, c.candidates), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if len(r.starts) != 0 || len(r.said()) != 0 {
				t.Errorf("starts %v", r.starts)
			}
		})
	}
}

func TestPrioritize(t *testing.T) {
	r := newDecideRig(poolNode("empty", v1alpha1.StateRunning), poolNode("used", v1alpha1.StateRunning),
		poolNode("foreign", ""), poolNode("mine", v1alpha1.StateStandby))
	r.state.SetPod(cpuPod("other", "used"))
	r.Filter(cpuPod("x", ""), []string{"mine"})
	r.state.SetNode(poolNode("mine", v1alpha1.StateRunning))
	candidates := []string{"foreign", "mine", "unknown", "empty", "used"}
	if diff := cmp.Diff([]int64{5, 10, 0, 0, 5}, r.Prioritize(cpuPod("x", ""), NamesOf(candidates))); diff != "" {
		t.Errorf("scores of the pod whose claim is on mine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{5, 0, 0, 0, 5}, r.Prioritize(cpuPod("y", ""), NamesOf(candidates))); diff != "" {
		t.Errorf("scores of any other pod (-want +got):\n%s", diff)
	}
}

func TestPreempt(t *testing.T) {
	victims := func(names ...string) map[string]*extenderv1.MetaVictims {
		out := map[string]*extenderv1.MetaVictims{}
		for _, n := range names {
			out[n] = &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: "victim-" + n}}, NumPDBViolations: 3}
		}
		return out
	}
	taintedNode := poolNode("tainted", "", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	})
	cordonedNode := poolNode("cordoned", v1alpha1.StateRunning, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	r := newDecideRig(poolNode("foreign", ""), poolNode("running", v1alpha1.StateRunning),
		poolNode("standby", v1alpha1.StateStandby),
		poolNode("starting", v1alpha1.StateStarting), taintedNode, cordonedNode)
	all := victims("foreign", "running", "standby", "starting", "tainted", "cordoned", "unknown")
	all["empty"], all["null"] = &extenderv1.MetaVictims{}, nil
	r.state.SetNode(poolNode("empty", ""))
	r.state.SetNode(poolNode("null", ""))
	if diff := cmp.Diff(victims("foreign", "running"), r.Preempt(cpuPod("x", ""), all)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if got := r.Preempt(cpuPod("x", ""), nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing comes %v, want an empty answer", got)
	}
	r.Filter(cpuPod("x", ""), []string{"standby"})
	if got := r.Preempt(cpuPod("x", ""), all); len(got) != 0 {
		t.Errorf("a pod whose node is coming evicts on %v", got)
	}
}

// TestPreemptLeavesPromisedRoom: node c of 4 cpu runs two pods of one cpu that may be evicted, and
// two cpu of it are claimed. Is it kept for a pod that would evict both?
func TestPreemptLeavesPromisedRoom(t *testing.T) {
	for name, c := range map[string]struct {
		cpu      int64
		priority int32 // of the claims; the preemptor's is 5
		victims  int
		kept     bool
	}{
		"room beside claims of equal priority":     {2000, 5, 2, true},
		"none beside claims of equal priority":     {2001, 5, 2, false},
		"none beside claims of higher priority":    {2001, 6, 2, false},
		"claims of lower priority give way":        {4000, 4, 2, true},
		"a pod that stays and the claims fill it":  {1001, 5, 1, false},
		"room beside the pod that stays and those": {1000, 5, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDecideRig(poolNode("c", v1alpha1.StateRunning), poolNode("d", ""))
			victims := &extenderv1.MetaVictims{}
			for n := range 2 {
				p := portless(fmt.Sprint("victim-", n), "c")
				r.state.SetPod(p)
				if n < c.victims {
					victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
				}
			}
			r.state.SetNode(poolNode("c", v1alpha1.StateStarting))
			for n := range 2 {
				p := portless(fmt.Sprint("claims-", n), "", func(p *corev1.Pod) { p.Spec.Priority = &c.priority })
				r.state.SetPod(p)
				if r.Filter(p, []string{"c"}); !r.ledger.HasClaim(p.UID) {
					t.Fatal("set-up: no claim")
				}
			}
			r.state.SetNode(poolNode("c", v1alpha1.StateRunning))
			five := int32(5)
			got := r.Preempt(cpuPod("x", "", milli(c.cpu), func(p *corev1.Pod) { p.Spec.Priority = &five }),
				map[string]*extenderv1.MetaVictims{"c": victims, "d": victims})
			if (got["c"] != nil) != c.kept {
				t.Errorf("kept %v, want %v", got["c"] != nil, c.kept)
			}
			if got["d"] == nil {
				t.Error("a node without claims was dropped: the scheduler has judged it")
			}
		})
	}
}

// Between the lookup of the candidates and the decision a pod is seen bound, and its claim ends. It
// counts on its node all the same: else another pod would get the room claimed for a third, which
// would start a second node.
func TestFilterCountsAPodThatIsBoundMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*decideRig)
		decision  string
	}{
		"nothing happens: its claim keeps the room": {func(*decideRig) {}, "started"},
		"it is bound where it was promised":         {func(r *decideRig) { r.state.SetPod(portless("1", "c")) }, "started"},
		"it is on its way there": {func(r *decideRig) { r.state.SetPod(portless("1", "", onItsWay("c"))) },
			"started"},
		"it is deleted: its room is free": {func(r *decideRig) { r.state.DeletePod(portless("1", "")) },
			"pass-claimed"},
		"the node goes": {func(r *decideRig) { r.state.DeleteNode("c") }, "started"},
		"the node stops": {func(r *decideRig) {
			r.state.SetNode(poolNode("c",
				v1alpha1.StateTerminating))
		}, "started"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDecideRig(poolNode("c", v1alpha1.StateStarting), poolNode("d", v1alpha1.StateStandby))
			for n := range 4 { // of one cpu each: they fill the node
				p := portless(fmt.Sprint(n), "")
				r.state.SetPod(p)
				r.Filter(p, []string{"c"})
			}
			r.state.SetNode(poolNode("c", v1alpha1.StateRunning))
			r.now = func() time.Time {
				c.meanwhile(r)
				return epoch()
			}
			if got := r.Filter(portless("late", ""), []string{"c", "d"}); got.Decision != c.decision {
				t.Errorf("decision %q (%v), want %q", got.Decision, got, c.decision)
			}
		})
	}
}

// A pod that is bound already while the question about it is decided gets no claim: no event would
// ever end it.
func TestFilterPromisesNothingToAPodThatIsBoundMeanwhile(t *testing.T) {
	r := newDecideRig(poolNode("c", v1alpha1.StateStandby), poolNode("n", ""))
	p := portless("x", "")
	r.state.SetPod(p)
	r.now = func() time.Time {
		r.state.SetPod(portless("x", "n"))
		return epoch()
	}
	if got := r.Filter(p, []string{"c"}); got.Decision != "not-ours" || len(r.starts) != 0 || r.ledger.Missed(epoch().Add(time.Second)) {
		t.Errorf("decision %q, starts %v, the ledger knows the pod: %t", got.Decision, r.starts, r.ledger.Missed(epoch().Add(time.Second)))
	}
}

func portless(name, on string, change ...func(*corev1.Pod)) *corev1.Pod {
	return cpuPod(name, on, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports, p.UID = nil,
			types.UID(name)
	}}, change...)...)
}
