package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// withStartupTaint is a pool that waits for the CNI's own condition.
func withStartupTaint(p *v1alpha1.NodePool) {
	p.Spec.Template.StartupTaints = []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}
}

// startupTainted: the taint of withStartupTaint stands on the Node.
func startupTainted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "cni", Effect: corev1.TaintEffectNoSchedule})
}

// warming is the Node of an instance that was launched a minute ago, Ready, its network not up.
func warming(change ...func(*corev1.Node)) *corev1.Node {
	return nodeIn(v1alpha1.StateWarmup, append([]func(*corev1.Node){
		func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(epoch().Add(-time.Minute)) },
	}, change...)...)
}

func minuteOld(i *provider.Instance) { i.LaunchTime = epoch().Add(-time.Minute) }

func (r *rig) failures(reason string) float64 {
	return testutil.ToFloat64(r.nodes.Metrics.WarmupFailures.WithLabelValues("p", reason))
}

func TestAWarmUpThatStopsIncompleteIsTriedOnceMore(t *testing.T) {
	r := newRig(t, warming(), nodePool(5, 1, withStartupTaint))
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile()
	r.want("patch c warmup", "start i-c")
	if got := r.failures("incomplete"); got != 1 {
		t.Errorf("%v incomplete warm-ups counted, want 1", got)
	}
	n := r.node("c")
	intent := n.Annotations[v1alpha1.AnnotationWarmupStarted]
	if intent == "" {
		t.Errorf("annotations %v, want the start", n.Annotations)
	}
	if transition.Fresh(n, transition.Condition(n, corev1.NodeReady)) {
		t.Error("what the kubelet reported before counts for the second try")
	}

	r.reconcile() // accepted: not asked again before a sweep says otherwise
	r.want("tag i-c warmup")
	r.now = r.now.Add(11 * time.Second)
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile() // the start fell back
	r.want("start i-c")
	if got := r.failures("incomplete"); got != 1 {
		t.Errorf("%v incomplete warm-ups counted after the call came again, want 1", got)
	}
	if got := r.node("c").Annotations[v1alpha1.AnnotationWarmupStarted]; got != intent {
		t.Errorf("started %s, want %s: the deadline must not move", got, intent)
	}
}

// A cache may be behind the cloud: what the kubelet reported before the stop counts, also where the
// cloud's answer came first.
func TestAWarmUpIsNotFailedByACacheThatIsBehind(t *testing.T) {
	for name, cached := range map[string]*corev1.Node{
		"the first report is missing": warming(func(n *corev1.Node) { n.Status.Conditions = nil }),
		"the network is not up":       warming(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, cached, nodePool(5, 1, withStartupTaint))
			r.sweep(instance(provider.InstanceStopped, minuteOld))
			live := newRig(t, warming())
			if err := live.api.Update(t.Context(), live.node("c")); err != nil { // a later version
				t.Fatal(err)
			}
			r.nodes.Live = live.api
			if again := r.reconcile(); again != 50*time.Millisecond {
				t.Errorf("queued again after %v, want 50ms", again)
			}
			r.want()
			if got := r.failures("never_ready") + r.failures("incomplete"); got != 0 {
				t.Errorf("%v warm-ups counted as failed, want none", got)
			}
			if said := r.said(); len(said) > 0 {
				t.Errorf("events %q, want none", said)
			}
		})
	}
}

// No Stratos was there while the machine warmed up and stopped itself, for longer than the grace
// period: kube-controller-manager has called the node unreachable, and whether it was Ready is
// unknown.
func TestAWarmUpThatNobodySawIsNotThrownAway(t *testing.T) {
	r := newRig(t, nodePool(5, 1), warming(func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}))
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile()
	r.want("patch c warmup", "start i-c")
}

// A process that dies between the intent and the call leaves an instance that its successor starts
// at once.
func TestTheSecondWarmUpSurvivesARestart(t *testing.T) {
	r := newRig(t, nodePool(5, 1, withStartupTaint),
		warming(startupTainted, annotated(v1alpha1.AnnotationWarmupStarted,
			epoch().Add(-time.Second).Format(time.RFC3339Nano)),
			annotated(v1alpha1.AnnotationHeartbeatAtStop, transition.FormatHeartbeats(nodeIn("").Status.Conditions))))
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile()
	r.want("start i-c")
}

func TestWarmUpFailures(t *testing.T) {
	second := func(ago time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations[v1alpha1.AnnotationWarmupStarted] = epoch().Add(-ago).Format(time.RFC3339Nano)
		}
	}
	silent := func(n *corev1.Node) { n.Status.Conditions = nil }
	for name, c := range map[string]struct {
		node     *corev1.Node
		instance *provider.Instance
		reason   string
		want     []string
	}{
		"never registered": {nil, instance(provider.InstanceRunning), "never_registered", []string{"terminate i-c"}},
		"never Ready": {warming(silent), instance(provider.InstanceRunning), "never_ready",
			[]string{"patch c terminating"}},
		"stopped itself before it was Ready": {
			warming(silent), instance(provider.InstanceStopped, minuteOld), "never_ready", []string{"patch c terminating"}},
		"stopped incomplete for the second time": {
			warming(startupTainted, second(time.Minute)), instance(provider.InstanceStopped), "incomplete",
			[]string{"patch c terminating"}},
		"second try too slow": {warming(startupTainted, second(11*time.Minute)), instance(provider.InstanceStopped),
			"incomplete", []string{"patch c terminating"}},
		"terminated by another client": {
			warming(), instance(provider.InstanceTerminated), "vanished", []string{"get i-c", "delete c"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 1, withStartupTaint))
			if c.node != nil {
				if err := r.api.Create(t.Context(), c.node); err != nil {
					t.Fatal(err)
				}
			}
			r.sweep(c.instance)
			r.reconcile()
			r.want(c.want...)
			if got := r.failures(c.reason); got != 1 {
				t.Errorf("%v warm-ups failed for %s, want 1", got, c.reason)
			}
			said := r.said()
			if told := slices.DeleteFunc(slices.Clone(said), func(s string) bool {
				return !strings.Contains(s,
					"WarmupFailed")
			}); len(told) != 1 {
				t.Errorf("events %q, want one WarmupFailed", said)
			}
		})
	}
}

// A network is not waited for any more on a machine that is off: a reconcile two minutes later must
// not call it complete.
func TestAStoppedWarmUpIsNotCompleteByPatience(t *testing.T) {
	old := func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(epoch().Add(-5 * time.Minute)) }
	r := newRig(t, warming(old), nodePool(5, 1, withStartupTaint))
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile()
	r.want("patch c warmup", "start i-c")
}
