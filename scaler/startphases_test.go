package scaler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// played is one start of node "c", with a device and a network that reports.
type played struct {
	*rig
	began time.Time
}

const playedDevice = "example.com/gpu"

// stoppedConditions are those that stand on the Node while its instance is stopped.
func stoppedConditions(at time.Time) []corev1.NodeCondition {
	stamp := metav1.NewTime(at)
	return []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: stamp, LastTransitionTime: stamp},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, LastHeartbeatTime: stamp,
			LastTransitionTime: stamp},
	}
}

// playStart has the leader see the standby node, and then write its start intent for a pod that is
// bound there.
func playStart(t *testing.T) *played {
	t.Helper()
	n := nodeIn(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationAllocatableAtStop, `{"`+playedDevice+`":"1"}`))
	n.Status.Conditions = stoppedConditions(epoch().Add(-10 * time.Minute))
	n.Annotations[v1alpha1.AnnotationHeartbeatAtStop] = transition.FormatHeartbeats(n.Status.Conditions)
	n.Status.NodeInfo.BootID = "first"
	p := &played{rig: newRig(t, nodePool(5, 1, func(p *v1alpha1.NodePool) {
		p.Spec.Template.StartupTaints = []corev1.Taint{{Key: "example.com/network", Effect: corev1.TaintEffectNoSchedule}}
	}), n)}
	p.sweep(instance(provider.InstanceStopped))
	p.reconcile()
	p.start()
	return p
}

// start has the leader write the start intent.
func (p *played) start() {
	p.t.Helper()
	if err := p.api.Create(p.t.Context(), boundPod("web")); err != nil {
		p.t.Fatal(err)
	}
	p.reconcile()
	p.began = p.now
	if state := p.node("c").Labels[v1alpha1.LabelState]; state != string(v1alpha1.StateStarting) {
		p.t.Fatalf("set-up: the node is %s", state)
	}
	p.reconcile()
}

// report has the kubelet or an agent change the status of the Node.
func (p *played) report(change func(*corev1.NodeStatus)) {
	p.t.Helper()
	n := p.node("c")
	change(&n.Status)
	if err := p.api.Status().Update(p.t.Context(), n); err != nil {
		p.t.Fatal(err)
	}
}

func (p *played) condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	p.report(func(s *corev1.NodeStatus) {
		at := slices.IndexFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		s.Conditions[at] = corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: metav1.NewTime(p.now),
			LastTransitionTime: metav1.NewTime(p.now)}
	})
}

// happens plays what ends the phase.
func (p *played) happens(phase v1alpha1.StartPhase) {
	p.t.Helper()
	switch phase {
	case v1alpha1.PhaseCall:
		if p.starts.Len() == 0 {
			p.t.Fatal("no call is due")
		}
		p.nodes.Starter.StepCall(p.t.Context())
	case v1alpha1.PhaseMachine:
		p.sweep(instance(provider.InstanceRunning))
	case v1alpha1.PhaseBoot:
		p.report(func(s *corev1.NodeStatus) { s.NodeInfo.BootID = "second" })
	case v1alpha1.PhaseReady:
		p.condition(corev1.NodeReady, corev1.ConditionTrue)
	case v1alpha1.PhaseNetwork:
		p.condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse)
	case v1alpha1.PhaseDevices:
		p.report(func(s *corev1.NodeStatus) { s.Allocatable[playedDevice] = resource.MustParse("1") })
	default:
		p.t.Fatalf("%s does not happen by itself", phase)
	}
	p.reconcile()
}

// sums are those of the histogram's series, by the value of their label, rounded to milliseconds.
func (p *played) sums(h *prometheus.HistogramVec, label string) map[string]time.Duration {
	p.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(h)
	families, err := registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]time.Duration{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, l := range series.GetLabel() {
				if l.GetName() == label && series.GetHistogram().GetSampleCount() > 0 {
					sum := series.GetHistogram().GetSampleSum()
					out[l.GetValue()] = time.Duration(sum * float64(time.Second)).Round(time.Millisecond)
				}
			}
		}
	}
	return out
}

// nodeWrites are the writes to the Node itself.
func (p *played) nodeWrites() []string {
	return slices.DeleteFunc(slices.Clone(p.log), func(what string) bool { return !strings.HasPrefix(what, "patch c") })
}

// checkSum checks that the phases of the one start sum up to what it took, in the metrics, and on
// the Node until it was opened, and that each start was written twice.
func (p *played) checkSum(phases map[string]time.Duration) {
	p.t.Helper()
	sum := time.Duration(0)
	for _, took := range phases {
		sum += took
	}
	took := p.sums(p.nodes.Metrics.ScaleupDuration, "pool")["p"]
	if len(phases) != len(v1alpha1.StartPhases()) || sum != took {
		p.t.Errorf("phases %v: their sum is %s, and the start took %s", phases, sum, took)
	}
	if diff := cmp.Diff([]string{"patch c starting", "patch c running"}, p.nodeWrites()); diff != "" {
		p.t.Errorf("writes to the Node: %s", diff)
	}
	last, ok := v1alpha1.LastStartOf(p.node("c"))
	if open := time.Duration(0); !ok || !last.Started.Equal(p.began) || last.Phases[v1alpha1.PhaseOpen] != open {
		p.t.Errorf("on the Node: %+v", last)
	}
	for phase, took := range last.Phases {
		if phase != v1alpha1.PhaseOpen && took != phases[string(phase)] {
			p.t.Errorf("on the Node %s took %s, in the metrics %s", phase, took, phases[string(phase)])
		}
	}
}

// TestASlowPhaseShowsAsItself: 3 s that one step takes longer show in its phase and nowhere else,
// in the metric, on the Node and in the status of the pool.
func TestASlowPhaseShowsAsItself(t *testing.T) {
	for _, slow := range v1alpha1.StartPhases() {
		t.Run(string(slow), func(t *testing.T) {
			p := playStart(t)
			p.patching = func() error { // the answer to the patch that opens the node
				if slow == v1alpha1.PhaseOpen {
					p.now = p.now.Add(3 * time.Second)
				}
				return nil
			}
			for _, phase := range v1alpha1.StartPhases()[:6] {
				if phase == slow {
					p.now = p.now.Add(3 * time.Second)
				}
				p.happens(phase)
			}
			got := p.sums(p.nodes.Metrics.StartPhase, "phase")
			for _, phase := range v1alpha1.StartPhases() {
				want := time.Duration(0)
				if phase == slow {
					want = 3 * time.Second
				}
				if got[string(phase)] != want {
					t.Errorf("%s took %s, want %s", phase, got[string(phase)], want)
				}
			}
			p.checkSum(got)
			p.patching = nil
			p.reconcilePool()
			for _, f := range p.pool().Status.StartSeconds.Phases {
				want := v1alpha1.StartPhaseSeconds{Name: f.Name}
				if f.Name == slow {
					want.P50, want.P95 = 3, 3
				}
				if f != want {
					t.Errorf("the status says %+v, want %+v", f, want)
				}
			}
		})
	}
}

// TestPhasesOfWhatIsSeenLate: whatever the leader sees first, no phase is negative and the sum is
// what the start took.
func TestPhasesOfWhatIsSeenLate(t *testing.T) {
	all := v1alpha1.StartPhases()[:6]
	orders := [][]v1alpha1.StartPhase{slices.Sorted(slices.Values(all))}
	for turn := range all {
		order := append(slices.Clone(all[turn:]), all[:turn]...)
		backwards := slices.Clone(order)
		slices.Reverse(backwards)
		orders = append(orders, order, backwards)
	}
	for _, order := range orders {
		p := playStart(t)
		for _, phase := range order {
			p.now = p.now.Add(3 * time.Second)
			p.happens(phase)
		}
		got := p.sums(p.nodes.Metrics.StartPhase, "phase")
		if slowest := slices.Min(slices.Collect(maps.Values(got))); slowest < 0 {
			t.Errorf("%v: a phase took %s", order, slowest)
		}
		p.checkSum(got)
		if t.Failed() {
			t.Fatalf("events in the order %v", order)
		}
	}
}

// TestAStartThatANewLeaderTookOver: it has not seen what went before, so the start has no phases,
// and what the Node says of an earlier start goes.
func TestAStartThatANewLeaderTookOver(t *testing.T) {
	p := playStart(t)
	earlier := v1alpha1.LastStart{Started: epoch().Add(-time.Hour)}
	n := p.node("c")
	n.Annotations[v1alpha1.AnnotationLastStart] = earlier.Text()
	if _, ok := v1alpha1.LastStartOf(n); !ok {
		t.Fatalf("set-up: %s cannot be read", earlier.Text())
	}
	next := &played{rig: newRig(t, p.pool(), n, boundPod("web")), began: p.began}
	next.now = p.now.Add(time.Second)
	next.nodes.Born = next.now
	next.sweep(instance(provider.InstanceStopped))
	next.reconcile()
	for _, phase := range v1alpha1.StartPhases()[:6] {
		next.now = next.now.Add(time.Second)
		next.happens(phase)
	}
	if got := next.sums(next.nodes.Metrics.StartPhase, "phase"); len(got) != 0 {
		t.Errorf("phases %v", got)
	}
	if got := next.sums(next.nodes.Metrics.ScaleupDuration, "pool")["p"]; got != 7*time.Second {
		t.Errorf("the start took %s", got)
	}
	if got, ok := next.node("c").Annotations[v1alpha1.AnnotationLastStart]; ok {
		t.Errorf("the Node says %s", got)
	}
	next.reconcilePool()
	if got := next.pool().Status.StartSeconds; got == nil || got.Count != 1 || got.Phases != nil {
		t.Errorf("the status says %+v", got)
	}
}

// TestPhasesAddNoWriteOfTheStatus: phases that change while the rest of the status stands wait for
// its next write. Each start brings some, since it changes how many nodes are in which state.
func TestPhasesAddNoWriteOfTheStatus(t *testing.T) {
	p := playStart(t)
	ends := func(slow v1alpha1.StartPhase) { // as many starts as the status describes, all alike
		for range 50 {
			p.pools.Starts.Add(p.pool(), 9*time.Second, map[v1alpha1.StartPhase]time.Duration{slow: 9 * time.Second})
		}
		p.now = p.now.Add(2 * time.Minute)
		p.reconcilePool()
	}
	slowest := func() v1alpha1.StartPhase {
		return slices.MaxFunc(p.pool().Status.StartSeconds.Phases, func(a, b v1alpha1.StartPhaseSeconds) int {
			return int(a.P50 - b.P50)
		}).Name
	}
	ends(v1alpha1.PhaseBoot)
	before := p.pool()
	if slowest() != v1alpha1.PhaseBoot {
		t.Fatalf("set-up: %+v", before.Status.StartSeconds)
	}
	ends(v1alpha1.PhaseNetwork)
	if diff := cmp.Diff(before, p.pool()); diff != "" {
		t.Errorf("a write for phases alone: %s", diff)
	}
	for _, phase := range v1alpha1.StartPhases()[:6] {
		p.happens(phase)
	}
	p.reconcilePool()
	if got := slowest(); got != v1alpha1.PhaseNetwork {
		t.Errorf("after the next write the slowest phase is %s", got)
	}
}
