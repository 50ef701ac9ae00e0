package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// moving is a reconciler whose two clocks the test moves: the wall clock, which can be stepped, and
// the time for which the process has run.
type moving struct {
	*Reconciler
	now    time.Time
	passed time.Duration
}

func movingOver(t *testing.T, objects ...client.Object) *moving {
	c, _ := over(t, objects...)
	m := &moving{Reconciler: c, now: scalertest.Epoch()}
	c.Now = func() time.Time { return m.now }
	c.Steps = NewStepClock(func() time.Duration { return m.passed })
	return m
}

func (m *moving) goOn(d time.Duration) { m.now, m.passed = m.now.Add(d), m.passed+d }

// observation is what is observed of "i-c" after a sweep that shows the instance as it is.
func (m *moving) observation(t *testing.T, is inventory.Entry) lifecycle.Observation {
	t.Helper()
	m.Inventory.Replace([]*provider.Instance{&is.Instance}, m.now)
	r, err := m.gather(t.Context(), is.ID)
	if err != nil {
		t.Fatal(err)
	}
	return observe(r, m.now)
}

// deadline is a step that has begun a moment ago and has a limit, with the action that it brings.
type deadline struct {
	node  *corev1.Node
	state provider.InstanceState
	pods  []*corev1.Pod
	limit time.Duration
	late  lifecycle.Action
}

func deadlines() map[string]deadline {
	silent := func(n *corev1.Node) { n.Status.Conditions = nil }
	just := scalertest.Epoch().Add(-2 * time.Second)
	return map[string]deadline{
		"an instance without a Node": {state: provider.InstanceRunning, limit: 10 * time.Minute, late: lifecycle.Terminate},
		"a warm-up": {node: scalertest.NodeIn(v1alpha1.StateWarmup, silent), state: provider.InstanceRunning,
			limit: 10 * time.Minute, late: lifecycle.BeginTerminate},
		"a start": {
			node: scalertest.NodeIn(v1alpha1.StateStarting, silent,
				scalertest.MarkedAt(v1alpha1.AnnotationScaleUpStarted, just)),
			state: provider.InstanceRunning,
			limit: 5 * time.Minute, late: lifecycle.FailStart,
		},
		"a drain that volumes hold up": {
			node: scalertest.NodeIn(v1alpha1.StateTerminating,
				scalertest.Annotated(v1alpha1.AnnotationStopReason, "drift"),
				scalertest.MarkedAt(v1alpha1.AnnotationStoppingSince, just)),
			pods: []*corev1.Pod{podOn("c", "a")}, state: provider.InstanceRunning,
			limit: 5 * time.Minute, late: lifecycle.AbandonDrain,
		},
		"a stop": {
			node: scalertest.NodeIn(v1alpha1.StateStopping,
				scalertest.Annotated(v1alpha1.AnnotationStopReason, "empty"),
				scalertest.MarkedAt(v1alpha1.AnnotationStoppingSince, just),
				scalertest.MarkedAt(v1alpha1.AnnotationStopIntent, just)),
			state: provider.InstanceStopping, limit: 5 * time.Minute, late: lifecycle.ForceStop,
		},
	}
}

// TestSteppedClockEndsNothing: the wall clock is stepped by hours either way while something is
// under way. No deadline comes for that, and the one that is due comes after the time that has
// really passed.
func TestSteppedClockEndsNothing(t *testing.T) {
	for name, c := range deadlines() {
		for step, by := range map[string]time.Duration{"forward": 6 * time.Hour, "back": -6 * time.Hour} {
			t.Run(name+", "+step, func(t *testing.T) {
				objects := []client.Object{scalertest.NodePool(5, 0)}
				if c.node != nil {
					objects = append(objects, c.node.DeepCopy())
				}
				for _, p := range c.pods {
					objects = append(objects, p.DeepCopy())
				}
				m := movingOver(t, objects...)
				is := instance(c.state, func(e *inventory.Entry) { e.LaunchTime = m.now.Add(-2 * time.Second) })
				decide := func() lifecycle.Action { return lifecycle.Decide(m.observation(t, is), m.now).Action }

				if before := decide(); before == c.late {
					t.Fatalf("%s from the start", before)
				}
				m.now = m.now.Add(by)
				if got := decide(); got == c.late {
					t.Errorf("%s when the clock was stepped", got)
				}
				m.goOn(c.limit - time.Second)
				if got := decide(); got == c.late {
					t.Errorf("%s a second before the deadline", got)
				}
				m.goOn(time.Second)
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
	nodePool := scalertest.NodePool(5, 0, func(p *v1alpha1.NodePool) {
		p.Spec.Template.StartupTaints = []corev1.Taint{taint}
	})
	n := startedBefore(0)
	n.Spec.Taints = append(n.Spec.Taints, taint)
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(scalertest.Epoch().Add(time.Second))
	m := movingOver(t, nodePool, n)
	up := func() bool { return m.observation(t, instance(provider.InstanceRunning)).Node.NetworkReady }
	if up() {
		t.Fatal("the network is up from the start")
	}
	m.now = m.now.Add(6 * time.Hour)
	if up() {
		t.Error("the network is taken for up because the clock was stepped")
	}
	m.goOn(networkTimeout + time.Second)
	if !up() {
		t.Error("the agent is waited for after its time")
	}
}
