package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/node"
)

// underWay are the steps that have a deadline, each begun a moment ago, with the action that its
// deadline brings.
func underWay() map[string]struct {
	node  *corev1.Node
	state provider.InstanceState
	pods  []*corev1.Pod
	// limit is the deadline, late what happens at it.
	limit time.Duration
	late  lifecycle.Action
} {
	silent := func(n *corev1.Node) { n.Status.Conditions = nil }
	just := epoch().Add(-2 * time.Second)
	type step = struct {
		node  *corev1.Node
		state provider.InstanceState
		pods  []*corev1.Pod
		limit time.Duration
		late  lifecycle.Action
	}
	return map[string]step{
		"an instance without a Node": {state: provider.InstanceRunning, limit: 10 * time.Minute, late: lifecycle.Terminate},
		"a warm-up": {node: nodeIn(v1alpha1.StateWarmup, silent), state: provider.InstanceRunning,
			limit: 10 * time.Minute, late: lifecycle.BeginTerminate},
		"a start": {
			node:  nodeIn(v1alpha1.StateStarting, silent, markedAt(v1alpha1.AnnotationScaleUpStarted, just)),
			state: provider.InstanceRunning,
			limit: 5 * time.Minute, late: lifecycle.FailStart,
		},
		"a drain that volumes hold up": {
			node: nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, "drift"),
				markedAt(v1alpha1.AnnotationStoppingSince, just)),
			pods: []*corev1.Pod{boundPod("a")}, state: provider.InstanceRunning, limit: 5 * time.Minute,
			late: lifecycle.AbandonDrain,
		},
		"a stop": {
			node:  drained(markedAt(v1alpha1.AnnotationStopIntent, just)),
			state: provider.InstanceStopping, limit: 5 * time.Minute, late: lifecycle.ForceStop,
		},
	}
}

// TestSteppedClockEndsNothing: the wall clock is stepped by hours either way while something is
// under way. No deadline comes for that, and the one that is due comes after the time that has
// really passed.
func TestSteppedClockEndsNothing(t *testing.T) {
	for name, c := range underWay() {
		for step, by := range map[string]time.Duration{"forward": 6 * time.Hour, "back": -6 * time.Hour} {
			t.Run(name+", "+step, func(t *testing.T) {
				objects := []client.Object{nodePool(5, 0)}
				if c.node != nil {
					objects = append(objects, c.node.DeepCopy())
				}
				for _, p := range c.pods {
					objects = append(objects, p.DeepCopy())
				}
				r := newRig(t, objects...)
				passed := time.Duration(0)
				r.nodes.Steps = node.NewStepClock(func() time.Duration { return passed })
				decide := func() lifecycle.Action {
					t.Helper()
					r.sweep(instance(c.state, func(i *provider.Instance) { i.LaunchTime = epoch().Add(-2 * time.Second) }))
					g, err := r.nodes.Gather(t.Context(), "i-c")
					if err != nil {
						t.Fatal(err)
					}
					return lifecycle.Decide(g.Observation, r.nodes.Now()).Action
				}
				goOn := func(d time.Duration) { r.now, passed = r.now.Add(d), passed+d }

				before := decide()
				if before == c.late {
					t.Fatalf("%s from the start", before)
				}
				r.now = r.now.Add(by)
				if got := decide(); got == c.late {
					t.Errorf("%s when the clock was stepped", got)
				}
				goOn(c.limit - time.Second)
				if got := decide(); got == c.late {
					t.Errorf("%s a second before the deadline", got)
				}
				goOn(time.Second)
				if got := decide(); got != c.late {
					t.Errorf("%s at the deadline, want %s", got, c.late)
				}
			})
		}
	}
}

// TestSteppedClockForcesNoStartupTaint: a stepped clock does not make a network agent late, and one
// that never comes is not waited for longer than is said.
func TestSteppedClockForcesNoStartupTaint(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}
	pool := nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Spec.Template.StartupTaints = []corev1.Taint{taint} })
	n := nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch()), func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(epoch().Add(time.Second))
	})
	r := newRig(t, pool, n)
	passed := time.Duration(0)
	r.nodes.Steps = node.NewStepClock(func() time.Duration { return passed })
	r.sweep(instance(provider.InstanceRunning))
	up := func() bool {
		t.Helper()
		g, err := r.nodes.Gather(t.Context(), "i-c")
		if err != nil {
			t.Fatal(err)
		}
		return g.Node.NetworkReady
	}
	if up() {
		t.Fatal("the network is up from the start")
	}
	r.now = r.now.Add(6 * time.Hour)
	if up() {
		t.Error("the network is taken for up because the clock was stepped")
	}
	r.now, passed = r.now.Add(node.NetworkTimeout+time.Second), passed+node.NetworkTimeout+time.Second
	if !up() {
		t.Error("the agent is waited for after its time")
	}
}
