package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestPhasesOfMarksInEveryOrder: each of the 720 orders in which the six marks may be seen, and
// each set of marks that are not seen at all. No phase is negative, the sum is the time that the
// start took, and a phase ends at its own mark or at the one of a later phase that was seen before.
func TestPhasesOfMarksInEveryOrder(t *testing.T) {
	phases, began := v1alpha1.StartPhases(), time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	const took = 21*time.Second + 7*time.Nanosecond
	orders := 0
	for _, order := range permutations(len(phases) - 1) {
		for missing := range 1 << len(order) {
			m := NewStartMarks(began)
			at := map[int]time.Duration{}
			for place, i := range order {
				if missing&(1<<i) == 0 {
					at[i] = time.Duration(place+1) * 3 * time.Second
					m.mark(phases[i], began.Add(at[i]))
				}
			}
			got, begin := m.Phases(began.Add(took)), time.Duration(0)
			for i, phase := range phases {
				end := took
				for later := i; later < len(order); later++ {
					if seen, ok := at[later]; ok {
						end = min(end, seen)
					}
				}
				if got[phase] != end-begin || got[phase] < 0 {
					t.Fatalf("marks %v: phase %s took %s, want %s", at, phase, got[phase], end-begin)
				}
				begin = end
			}
			if begin != took {
				t.Fatalf("marks %v: the sum is %s", at, begin)
			}
			orders++
		}
	}
	if orders != 720*64 {
		t.Errorf("%d cases", orders)
	}
}

// permutations are all orders of the numbers below n.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			order := append(append(append([]int{}, shorter[:at]...), n-1), shorter[at:]...)
			out = append(out, order)
		}
	}
	return out
}

// TestEachPhaseOfAStart: three seconds that one step of a start takes longer show in its phase
// alone.
func TestEachPhaseOfAStart(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for slow, phase := range v1alpha1.StartPhases() {
		at := func(step int) time.Time { // when the step of that number has happened
			if step >= slow {
				return began.Add(3 * time.Second)
			}
			return began
		}
		m := NewStartMarks(began)
		o := Observation{Node: &Node{Started: began}, Instance: Instance{State: provider.InstanceStopped}}
		now, booted := began, false
		for step, happens := range []func(){
			func() { o.Instance.Accepted = now },
			func() {
				o.Instance.State, o.Instance.Since, o.Instance.Up = provider.InstanceRunning, now, now
				o.Instance.Seen = now
			},
			func() { booted = true },
			func() { o.Node.Ready = true },
			func() { o.Node.NetworkReady = true },
			func() { o.Node.Complete = true },
		} {
			now = at(step)
			happens()
			m.Observe(&o, booted, now)
		}
		got := m.Phases(at(len(v1alpha1.StartPhases()) - 1))
		for other, took := range got {
			want := time.Duration(0)
			if other == phase {
				want = 3 * time.Second
			}
			if took != want {
				t.Errorf("slow is %s: %s took %s, want %s", phase, other, took, want)
			}
		}
	}
}

// TestMarksOfAStart: what ends a phase, as the leader sees it.
func TestMarksOfAStart(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	stopped := Instance{State: provider.InstanceStopped, Seen: after(-5), Since: after(-900), Up: after(-905)}
	type look struct {
		at       int
		instance Instance
		node     Node
		booted   bool
	}
	shown := func(state provider.InstanceState, since, at int) Instance {
		return Instance{State: state, Seen: after(at), Since: after(since), Up: after(at)}
	}
	whole := Node{Ready: true, NetworkReady: true, Complete: true}
	for name, c := range map[string]struct {
		looks []look
		ended int
		want  map[v1alpha1.StartPhase]int
	}{
		"another replica's call shows in a sweep": {
			looks: []look{
				{at: 0, instance: stopped}, {at: 3, instance: shown(provider.InstancePending, 2, 2)},
				{at: 7, instance: shown(provider.InstanceRunning, 6, 6)},
				{at: 9, instance: shown(provider.InstanceRunning, 6, 8), booted: true},
				{at: 12, instance: shown(provider.InstanceRunning, 6, 12), booted: true, node: whole},
			}, ended: 13,
			want: map[v1alpha1.StartPhase]int{"call": 2, "machine": 4, "boot": 3, "ready": 3, "open": 1},
		},
		"the sweep is later than the kubelet": {
			looks: []look{
				{at: 4, instance: stopped, booted: true},
				{at: 5, instance: shown(provider.InstanceRunning, 5, 5), booted: true, node: Node{Ready: true}},
				{at: 8, instance: shown(provider.InstanceRunning, 5, 5), booted: true, node: whole},
			}, ended: 8,
			want: map[v1alpha1.StartPhase]int{"call": 4, "ready": 1, "network": 3},
		},
		"a machine that comes from its hibernation has the bootID of before": {
			looks: []look{
				{at: 2, instance: shown(provider.InstanceRunning, 2, 2)},
				{at: 6, instance: shown(provider.InstanceRunning, 2, 6), node: whole},
			}, ended: 6,
			want: map[v1alpha1.StartPhase]int{"call": 2, "boot": 4},
		},
		"the network is up before the kubelet is Ready": {
			looks: []look{
				{at: 1, instance: shown(provider.InstanceRunning, 1, 1), booted: true,
					node: Node{NetworkReady: true, Complete: true}},
				{at: 5, instance: shown(provider.InstanceRunning, 1, 5), booted: true, node: whole},
			}, ended: 5,
			want: map[v1alpha1.StartPhase]int{"call": 1, "ready": 4},
		},
		"the kubelet is Ready for a moment": {
			looks: []look{
				{at: 1, instance: shown(provider.InstanceRunning, 1, 1), booted: true, node: Node{Ready: true}},
				{at: 2, instance: shown(provider.InstanceRunning, 1, 1), booted: true},
				{at: 5, instance: shown(provider.InstanceRunning, 1, 5), booted: true, node: whole},
			}, ended: 5,
			want: map[v1alpha1.StartPhase]int{"call": 1, "ready": 4},
		},
		"an agent's taint is the last": {
			looks: []look{
				{at: 1, instance: shown(provider.InstanceRunning, 1, 1), booted: true,
					node: Node{Ready: true, NetworkReady: true, Complete: true, AgentTaint: "agent.example.com/down"}},
				{at: 9, instance: shown(provider.InstanceRunning, 1, 9), booted: true, node: whole},
			}, ended: 9,
			want: map[v1alpha1.StartPhase]int{"call": 1, "devices": 8},
		},
		"opened at readyTimeout without its devices": {
			looks: []look{
				{at: 1, instance: shown(provider.InstanceRunning, 1, 1), booted: true,
					node: Node{Ready: true, NetworkReady: true}},
			}, ended: 300,
			want: map[v1alpha1.StartPhase]int{"call": 1, "devices": 299},
		},
		"a clock of ours that lags behind the intent's": {
			looks: []look{{at: -2, instance: shown(provider.InstanceRunning, -2, -2), booted: true, node: whole}}, ended: 1,
			want: map[v1alpha1.StartPhase]int{"open": 1},
		},
		"nothing was seen": {ended: 4, want: map[v1alpha1.StartPhase]int{"call": 4}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewStartMarks(began)
			for _, l := range c.looks {
				l.node.Started = began
				m.Observe(&Observation{Instance: l.instance, Node: &l.node}, l.booted, after(l.at))
			}
			got := map[v1alpha1.StartPhase]int{}
			for phase, took := range m.Phases(after(c.ended)) {
				if took != 0 {
					got[phase] = int(took / time.Second)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := NewStartMarks(began).Phases(after(-1)); got != nil {
		t.Errorf("a start that ended before it began: %v", got)
	}
}
