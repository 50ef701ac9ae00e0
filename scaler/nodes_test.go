package scaler

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// reconcile takes one step of "i-c".
func (r *rig) reconcile() time.Duration {
	r.t.Helper()
	result, err := r.nodes.Reconcile(r.t.Context(), "i-c")
	if err != nil {
		r.t.Fatal(err)
	}
	return result.RequeueAfter
}

// drained is the Node of an empty node whose stop may be intended now.
func drained(change ...func(*corev1.Node)) *corev1.Node {
	return nodeIn(v1alpha1.StateStopping, append([]func(*corev1.Node){
		annotated(v1alpha1.AnnotationStopReason, "empty"), markedAt(v1alpha1.AnnotationStoppingSince,
			epoch().Add(-2*time.Second)),
		annotated(v1alpha1.AnnotationCordoned, "true"), func(n *corev1.Node) { n.Spec.Unschedulable = true },
	}, change...)...)
}

func TestNodeStep(t *testing.T) {
	tagged := func(state v1alpha1.NodeState) func(*provider.Instance) {
		return withTag(v1alpha1.LabelState, string(state))
	}
	long := epoch().Add(-time.Hour)
	for name, c := range map[string]struct {
		node     *corev1.Node
		instance *provider.Instance
		known    *provider.Instance // what the cloud answers about it alone
		pods     []*corev1.Pod
		claims   bool
		want     []string
		events   []string
	}{
		"a Node that registered is adopted": {
			node: nodeIn("", func(n *corev1.Node) { n.Labels = nil }), instance: instance(provider.InstanceRunning,
				func(i *provider.Instance) { i.LaunchTime = epoch() }),
			want: []string{"patch c warmup"}, events: []string{"WarmupStarted"},
		},
		"a stopped node stands by": {
			node: drained(markedAt(v1alpha1.AnnotationStopIntent, long)), instance: instance(provider.InstanceStopped),
			want: []string{"patch c standby"},
		},
		"the intent is written before the stop is asked": {
			node: drained(), instance: instance(provider.InstanceRunning),
			want: []string{"intent c", "stop i-c"}, events: []string{"ScaleDown"},
		},
		"pods of DaemonSets, static and finished ones do not keep it": {
			node: drained(), instance: instance(provider.InstanceRunning),
			pods: []*corev1.Pod{
				boundPod("static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
				boundPod("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			},
			want: []string{"intent c", "stop i-c"}, events: []string{"ScaleDown"},
		},
		"a pod that landed cancels the stop": {
			node: drained(), instance: instance(provider.InstanceRunning), pods: []*corev1.Pod{boundPod("a")},
			want: []string{"patch c running"}, events: []string{"NodeRunning"},
		},
		"a claim cancels the stop": {
			node: drained(), instance: instance(provider.InstanceRunning), claims: true,
			want: []string{"patch c running"}, events: []string{"NodeRunning"},
		},
		"after the intent nobody cancels": {
			node:     drained(markedAt(v1alpha1.AnnotationStopIntent, epoch())),
			instance: instance(provider.InstanceStopping, tagged(v1alpha1.StateStopping)),
			pods:     []*corev1.Pod{boundPod("a")},
		},
		"an intent that was not carried out is carried out": {
			node:     drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute))),
			instance: instance(provider.InstanceRunning),
			want:     []string{"asked c", "stop i-c"},
		},
		"an intent that was not carried out waits where a pod has landed": {
			node:     drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-15*time.Second))),
			instance: instance(provider.InstanceRunning, tagged(v1alpha1.StateStopping)),
			pods:     []*corev1.Pod{boundPod("a")},
		},
		"an intent that came to nothing is taken back for a pod that has landed": {
			node:     drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute))),
			instance: instance(provider.InstanceRunning),
			pods:     []*corev1.Pod{boundPod("a")}, want: []string{"patch c stopping"}, events: []string{"NodeRunning"},
		},
		"the same, but it was asked for again a moment ago: it may yet be carried out": {
			node: drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute)),
				markedAt(v1alpha1.AnnotationStopAsked, epoch().Add(-15*time.Second))),
			instance: instance(provider.InstanceRunning, tagged(v1alpha1.StateStopping)), pods: []*corev1.Pod{boundPod("a")},
		},
		"a pod that nobody is there to end does not keep an instance forever": {
			node: nodeIn(v1alpha1.StateTerminating,
				func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			instance: instance(provider.InstanceRunning, tagged(v1alpha1.StateTerminating)),
			pods:     []*corev1.Pod{boundPod("a", endedAt(epoch().Add(-time.Minute)))},
			want:     []string{"terminate i-c"},
		},
		"one whose kubelet reports that it is not Ready is waited for": {
			node: nodeIn(v1alpha1.StateTerminating,
				func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }),
			instance: instance(provider.InstanceRunning, tagged(v1alpha1.StateTerminating)),
			pods:     []*corev1.Pod{boundPod("a", endedAt(epoch().Add(-time.Minute)))},
		},
		"a stop that hangs is forced": {
			node: drained(markedAt(v1alpha1.AnnotationStopIntent, long)), instance: instance(provider.InstanceStopping),
			want: []string{"asked c", "force-stop i-c"},
		},
		"a warm-up's own stop that hangs is forced though a pod is bound there: that machine goes down already": {
			node:     nodeIn(v1alpha1.StateWarmup, markedAt(v1alpha1.AnnotationWarmedAt, long)),
			instance: instance(provider.InstanceStopping),
			pods:     []*corev1.Pod{boundPod("a")}, want: []string{"intent c", "force-stop i-c"},
		},
		"a start that is not running in time is forced down and given up": {
			node: nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, long),
				func(n *corev1.Node) { n.Status.Conditions = nil }),
			instance: instance(provider.InstanceRunning), claims: true,
			want: []string{"intent c", "force-stop i-c"}, events: []string{"StartFailed"},
		},
		"a start that is Ready runs": {
			node:     nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-time.Second))),
			instance: instance(provider.InstanceRunning), want: []string{"patch c running"}, events: []string{"NodeRunning"},
		},
		"an instance that vanished takes its Node along": {
			node: nodeIn(v1alpha1.StateStandby, readyIs(corev1.ConditionUnknown)), want: []string{"get i-c", "delete c"},
			events: []string{"OrphanRemoved"},
		},
		"an instance of another cluster is left alone": {
			node: nodeIn(v1alpha1.StateStandby), instance: instance(provider.InstanceRunning,
				withTag(v1alpha1.TagCluster, "there")), want: []string{"get i-c"},
		},
		"an instance that nobody tagged is left alone": {
			node: nodeIn(v1alpha1.StateStandby), instance: instance(provider.InstanceRunning, withTag(v1alpha1.TagManagedBy, ""),
				withoutUID), want: []string{"get i-c"},
		},
		"an instance of a Node that carries this cluster's UID gets the tags again that it lacks": {
			node: nodeIn(v1alpha1.StateStandby), instance: instance(provider.InstanceStopped,
				withTag(v1alpha1.TagManagedBy, "")),
			want: []string{"get i-c", "tag i-c ", "tag i-c standby"},
		},
		"an instance of a Node that carries another cluster's UID is left alone": {
			node: nodeIn(v1alpha1.StateStandby), instance: instance(provider.InstanceStopped, ofOtherCluster),
			want: []string{"get i-c"},
		},
		"a Node that only bears a pool's label is somebody else's, though our cloud does not know its instance": {
			node: nodeIn("", func(n *corev1.Node) {
				delete(n.Labels, v1alpha1.LabelState)
				n.Spec.ProviderID = "other://i-c"
			}),
		},
		"of a Node that names no pool the cloud is not even asked": {
			node: nodeIn("", func(n *corev1.Node) { n.Labels = nil }),
		},
		"a standby node reports, and the last sweep does not show yet that another client started it": {
			node: nodeIn(v1alpha1.StateStandby, scalertest.Reporting), instance: instance(provider.InstanceStopped),
			known: instance(provider.InstanceRunning), want: []string{"get i-c"},
		},
		"the tag follows the state": {
			node: nodeIn(v1alpha1.StateStandby), instance: instance(provider.InstanceStopped), want: []string{"tag i-c standby"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{c.node, nodePool(5, 0)}
			for _, p := range c.pods {
				objects = append(objects, p)
			}
			r := newRig(t, objects...)
			switch {
			case c.instance == nil:
				r.sweep()
			case r.nodes.Owner.Owns(c.instance):
				r.sweep(c.instance)
			default:
				r.sweep()
				r.known["i-c"] = c.instance
			}
			if c.known != nil {
				r.known["i-c"] = c.known
			}
			if c.claims {
				r.promise("waiting", "c")
			}
			r.reconcile()
			r.want(c.want...)
			said := r.said()
			for _, want := range c.events {
				if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("events %q, want %s among them", said, want)
				}
			}
			if len(c.events) == 0 && len(said) > 0 {
				t.Errorf("events %q, want none", said)
			}
		})
	}
}

// endedAt: asked to end, with a grace that was over then.
func endedAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		end := metav1.NewTime(at)
		// the fake API server keeps no such pod without one
		p.DeletionTimestamp, p.Finalizers = &end, []string{"somebody/waits"}
	}
}

// The cache may be behind: what decides is the API server's own list.
func TestNoStopWhenAPodIsThereThatTheCacheDoesNotShow(t *testing.T) {
	r := newRig(t, drained(), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning))
	live := newRig(t, drained(), nodePool(5, 0), boundPod("late"))
	r.nodes.Live = live.api
	r.reconcile()
	r.want("patch c running")
}

// A pod that is nominated is on its way through a slow PreBind; the API server cannot be asked for
// those by field.
func TestNoStopWhenAPodIsNominated(t *testing.T) {
	r := newRig(t, drained(), nodePool(5, 0), boundPod("coming", func(p *corev1.Pod) {
		p.Spec.NodeName,
			p.Status.NominatedNodeName = "", "c"
	}))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.want("patch c running")
}

func TestNoStopWhenTheIntentIsRefused(t *testing.T) {
	r := newRig(t, drained(annotated(v1alpha1.AnnotationClaims, "somebody")), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning))
	if again := r.reconcile(); again != 50*time.Millisecond {
		t.Errorf("looked at again after %v, want 50ms", again)
	}
	r.want("patch refused")
}

// The stop was not accepted: the intent stays, and the next reconcile asks again and records that.
func TestAStopThatFailsIsAskedAgain(t *testing.T) {
	r := newRig(t, drained(), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning))
	r.stopping = errors.New("the cloud is down")
	if _, err := r.nodes.Reconcile(t.Context(), "i-c"); err == nil {
		t.Error("the failure is swallowed")
	}
	r.want("intent c", "stop i-c")
	r.stopping = nil
	r.now = r.now.Add(11 * time.Second)
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.want("asked c", "stop i-c")
	r.reconcile() // accepted: not asked a third time before a sweep says otherwise
	r.want("tag i-c stopping")
}

// The cache may be behind here too: the machine still runs, and the pod on it.
func TestNoStopAgainWhenAPodIsThereThatTheCacheDoesNotShow(t *testing.T) {
	r := newRig(t, drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute))), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning))
	live := newRig(t, nodePool(5, 0), boundPod("late"))
	r.nodes.Live = live.api
	if again := r.reconcile(); again != 50*time.Millisecond {
		t.Errorf("looked at again after %v, want 50ms", again)
	}
	r.want()
}

func TestTerminateWaitsForPods(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateTerminating), nodePool(5, 0), boundPod("a"))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.want("eviction a")
	cached := newRig(t, nodeIn(v1alpha1.StateTerminating), nodePool(5, 0)) // a cache that shows no pod
	r.nodes.Reader = cached.api
	if again := r.reconcile(); again != 50*time.Millisecond {
		t.Errorf("looked at again after %v, want 50ms", again)
	}
	r.want()
}

// Other controllers write taints all the time: pods wait, so the patch is tried at once on the Node
// as it is.
func TestToRunningIsTriedAgainOnTheLiveNode(t *testing.T) {
	refused := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, "c",
		"test failed", 0, false)
	for name, c := range map[string]struct {
		refusals int
		moved    bool
		state    string
		again    time.Duration
	}{
		"twice refused":              {refusals: 2, state: "running"},
		"refused five times":         {refusals: 5, state: "starting", again: 50 * time.Millisecond},
		"moved on by another client": {refusals: 1, moved: true, state: "terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())), nodePool(5, 0))
			r.sweep(instance(provider.InstanceRunning))
			calls := 0
			r.patching = func() error {
				if calls++; calls > c.refusals {
					return nil
				}
				if c.moved {
					n := r.node("c")
					n.Labels[v1alpha1.LabelState] = "terminating"
					if err := r.api.Update(t.Context(), n); err != nil {
						t.Fatal(err)
					}
				}
				return refused
			}
			if again := r.reconcile(); again != c.again {
				t.Errorf("looked at again after %v, want %v", again, c.again)
			}
			if got := r.node("c").Labels[v1alpha1.LabelState]; got != c.state {
				t.Errorf("state %s, want %s", got, c.state)
			}
		})
	}
}

// EndpointSlices and zone health rely on the last report for 50 s: Stratos overwrites it, with the
// kubelet's own time.
func TestToStandbySaysThatTheInstanceIsStopped(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"Stratos stopped it":        drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute))),
		"another client stopped it": nodeIn(v1alpha1.StateStandby, scalertest.Reporting),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, node, nodePool(5, 0))
			r.sweep(instance(provider.InstanceStopped))
			r.known["i-c"] = instance(provider.InstanceStopped)
			r.reconcile()
			n := r.node("c")
			ready := transition.Condition(n, corev1.NodeReady)
			standby := transition.Condition(n, v1alpha1.ConditionStandby)
			if ready.Status != corev1.ConditionUnknown || !ready.LastHeartbeatTime.Time.Equal(epoch()) {
				t.Errorf("Ready is %s with heartbeat %v, want Unknown with the kubelet's",
					ready.Status, ready.LastHeartbeatTime)
			}
			if standby == nil || standby.Status != corev1.ConditionTrue {
				t.Errorf("condition %+v, want True", standby)
			}
			if transition.Fresh(n, ready) {
				t.Error("a start would take the last report for a new one")
			}
		})
	}
}

// The process may die between the two writes of a stop, or the second may fail: the next reconcile
// repeats it, on a Node that has not changed since.
func TestAStandbyNodeThatDoesNotSayStoppedIsMadeTo(t *testing.T) {
	stale := reporting(v1alpha1.ConditionStandby, corev1.ConditionFalse, "Running", epoch().Add(-time.Hour))
	for name, c := range map[string]struct {
		state provider.InstanceState
		said  func(*corev1.Node)
		want  corev1.ConditionStatus
	}{
		"it says running":               {provider.InstanceStopped, stale, corev1.ConditionTrue},
		"it never said anything":        {provider.InstanceStopped, func(*corev1.Node) {}, corev1.ConditionTrue},
		"somebody else has started it":  {provider.InstanceRunning, stale, corev1.ConditionFalse},
		"somebody else is starting it ": {provider.InstancePending, stale, corev1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			booting := func(n *corev1.Node) { n.Status.Conditions = nil }
			r := newRig(t, nodeIn(v1alpha1.StateStandby, booting, c.said), nodePool(5, 0))
			r.sweep(instance(c.state))
			r.reconcile()
			if got := transition.Condition(r.node("c"), v1alpha1.ConditionStandby); got == nil || got.Status != c.want {
				t.Errorf("condition %+v, want %s", got, c.want)
			}
		})
	}
}

// What another process intended and may not have carried out is asked for at once, and once.
func TestIntentsOfAnEarlierProcessAreCarriedOutAtOnce(t *testing.T) {
	silent := func(n *corev1.Node) { n.Status.Conditions = nil }
	for name, c := range map[string]struct {
		node     *corev1.Node
		instance *provider.Instance
		want     []string
	}{
		"a start": {
			nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-2*time.Second)), silent),
			instance(provider.InstanceStopped, withTag(v1alpha1.LabelState, "starting")),
			[]string{"start i-c", "count p pending"},
		},
		"a start of our own": {
			nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch()), silent),
			instance(provider.InstanceStopped, withTag(v1alpha1.LabelState, "starting")), nil,
		},
		"a stop": {
			drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-2*time.Second))),
			instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")), []string{"asked c", "stop i-c"},
		},
		"a stop of our own": {
			drained(markedAt(v1alpha1.AnnotationStopIntent, epoch())),
			instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.node, nodePool(5, 0))
				r.sweep(c.instance)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- r.nodes.Starter.Start(ctx) }()
				for range 3 { // what the sweep showed is old after the first
					r.reconcile()
					synctest.Wait()
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				r.want(c.want...)
			})
		})
	}
}

// This replica or another has asked for something: the sweep shall not rest.
func TestWhatIsOnItsWayKeepsTheSweepAwake(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"starting": {nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())),
			true},
		"stop intended": {drained(markedAt(v1alpha1.AnnotationStopIntent, epoch())), true},
		"draining":      {drained(markedAt(v1alpha1.AnnotationStoppingSince, epoch())), false},
		"standing by":   {nodeIn(v1alpha1.StateStandby), false},
		"running":       {nodeIn(v1alpha1.StateRunning), false},
		"standing by after an error": {nodeIn(v1alpha1.StateStandby, markedAt(v1alpha1.AnnotationStopIntent, epoch())),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.node, nodePool(5, 0))
			poked := false
			r.nodes.Poke = func() { poked = true }
			r.sweep(instance(provider.InstancePending))
			r.reconcile()
			if poked != c.want {
				t.Errorf("poked: %t", poked)
			}
		})
	}
}

// A node that runs and says Standby misleads readers of its conditions. Pods do not wait for
// that write.
func TestToRunningTurnsTheConditionAround(t *testing.T) {
	said := reporting(v1alpha1.ConditionStandby, corev1.ConditionTrue, "Stopped", epoch().Add(-time.Hour))
	r := newRig(t, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch()), said),
		nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning))
	r.statusing = func() error {
		if got := r.node("c").Labels[v1alpha1.LabelState]; got != "running" {
			t.Errorf("the condition is written while the node is %s: pods wait for it", got)
		}
		return errors.New("down")
	}
	r.reconcile() // opens it
	r.reconcile() // marks it empty
	if _, err := r.nodes.Reconcile(t.Context(), "i-c"); err == nil {
		t.Error("the failure is swallowed")
	}
	r.statusing = nil
	if got, err := r.nodes.Reconcile(t.Context(), "i-c"); err != nil || got.Priority == nil || *got.Priority != 0 {
		t.Errorf("%+v, %v: a node that is open keeps its place before those that start", got, err)
	}
	standby := transition.Condition(r.node("c"), v1alpha1.ConditionStandby)
	if standby.Status != corev1.ConditionFalse || !standby.LastTransitionTime.Time.Equal(epoch()) {
		t.Errorf("condition %+v, want False since now", standby)
	}
	if ready := transition.Condition(r.node("c"), corev1.NodeReady); ready.Status != corev1.ConditionTrue {
		t.Errorf("Ready %s: not ours to change", ready.Status)
	}
	r.statusing = func() error { t.Error("it is written again"); return nil }
	r.reconcile()
}

// A start that a crash left open is asked for again, and counts as what it is.
func TestAResumedStartIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-time.Minute)),
			func(n *corev1.Node) { n.Status.Conditions = nil }), nodePool(5, 0))
		r.sweep(instance(provider.InstanceStopped))
		r.reconcile()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.nodes.Starter.Start(ctx) }()
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.want("start i-c", "count p pending")
	})
}

func TestTheTagIsWrittenOnce(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby), nodePool(5, 0))
	r.sweep(instance(provider.InstanceStopped))
	for range 3 {
		r.reconcile()
	}
	r.want("tag i-c standby")
}

func TestNothingIsDecidedBeforeTheFirstSweep(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby), nodePool(5, 0))
	if again := r.reconcile(); again != 200*time.Millisecond {
		t.Errorf("looked at again after %v, want 200ms", again)
	}
	r.want()
}

func reporting(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string,
	at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: reason,
			LastHeartbeatTime: metav1.NewTime(at)})
	}
}
