package scaler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/start"
)

// unschedulable is a pod that is pending since epoch.
func unschedulable(change ...func(*corev1.Pod)) *corev1.Pod {
	return boundPod("a", append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.SchedulerName = "", v1alpha1.SchedulerName
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(epoch()),
		}}
	}}, change...)...)
}

func needing(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{
			{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}},
		}
	}
}

// looksAfter is the watch of pending pods over what the rig's API server holds now; the pools that
// it queues again go to the rig's log.
func (r *rig) looksAfter() *pending.Reconciler {
	r.t.Helper()
	clock, seen := func() time.Time { return r.now }, r.view()
	return pending.New(&pending.Reconciler{
		Classes: r.pools.Classes,
		Reader:  r.api, Writer: r.api, Demand: r.demand, Events: r.events,
		Schedulers: []string{v1alpha1.SchedulerName},
		Errors:     r.nodes.Metrics.SchedulerErrors,
		Now:        clock, State: seen, Ready: func() error { return nil }, Placer: start.NewPlacer(seen, r.nodes.Starter,
			r.events, clock),
		PoolChanged: func(_ context.Context, pool v1alpha1.PoolName) { r.note("pool " + string(pool)) },
	})
}

// view is fed with what the rig's API server holds now.
func (r *rig) view() *cluster.State {
	r.t.Helper()
	v := cluster.New(r.ledger, func() time.Time { return r.now })
	pools, nodes, pods := &v1alpha1.NodePoolList{}, &corev1.NodeList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{pools, nodes, pods} {
		if err := r.api.List(r.t.Context(), list); err != nil {
			r.t.Fatal(err)
		}
	}
	for i := range pools.Items {
		v.SetPool(&pools.Items[i])
	}
	for i := range nodes.Items {
		v.SetNode(&nodes.Items[i])
	}
	for i := range pods.Items {
		v.SetPod(&pods.Items[i])
	}
	sets, err := pool.DaemonSets(r.t.Context(), r.api)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, set := range sets {
		v.SetDaemonSet(set)
	}
	return v
}

// counting is a pool whose status counts that many instances.
func counting(total int32) func(*v1alpha1.NodePool) {
	return func(p *v1alpha1.NodePool) { p.Status.Total = total }
}

func (r *rig) look(c *pending.Reconciler) {
	r.t.Helper()
	if _, err := c.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default",
		Name: "a"}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestExplainSays(t *testing.T) {
	standby := func(change ...func(*corev1.Node)) *corev1.Node {
		return nodeIn(v1alpha1.StateStandby, append([]func(*corev1.Node){func(n *corev1.Node) { n.Spec.Unschedulable = true },
			annotated(v1alpha1.AnnotationCordoned, "true")}, change...)...)
	}
	second := func(n *corev1.Node) { n.Name, n.UID = "b", "uid-b" }
	yes := true
	for name, c := range map[string]struct {
		objects []client.Object
		after   time.Duration
		want    string // "" for no event
	}{
		"there is no pool": {[]client.Object{unschedulable()}, time.Minute, "there is no NodePool"},
		"the pool is empty yet": {[]client.Object{unschedulable(), nodePool(2, 1)}, time.Minute,
			"ColdLaunch pool p has no node yet: launching a new instance in pool p"},
		"it is larger than any node": {[]client.Object{unschedulable(needing("5")), nodePool(2, 1), standby()}, time.Minute,
			"pool p: needs 5 cpu, node has 4 left"},
		"it selects other nodes": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), nodePool(2, 1), standby()}, time.Minute, "pool p: "},
		"all nodes are in use": {[]client.Object{unschedulable(needing("1")), nodePool(1, 1, counting(1)),
			nodeIn(v1alpha1.StateRunning)}, time.Minute, "pool p is at its poolSize of 1"},
		"another node may be launched": {[]client.Object{unschedulable(needing("1")), nodePool(2, 1, counting(1)),
			nodeIn(v1alpha1.StateRunning)}, time.Minute,
			"ColdLaunch pool p has no standby node with room now: launching a new instance in pool p"},
		"the pool goes": {[]client.Object{unschedulable(needing("1")), nodePool(2, 1, deleted),
			nodeIn(v1alpha1.StateRunning)}, time.Minute, "StandbyUnavailable pool p is being deleted"},
		"a person keeps the node back": {[]client.Object{unschedulable(needing("1")), nodePool(2, 1),
			standby(annotated(v1alpha1.AnnotationDoNotStart, "true"))}, time.Minute,
			"ColdLaunch pool p: its standby nodes are not startable: annotated stratos.sh/do-not-start: launching"},
		"a paused pool": {
			[]client.Object{unschedulable(needing("1")), nodePool(2, 1, paused), standby()}, time.Minute,
			"StandbyUnavailable pool p is paused"},
		"a paused pool with nodes that are too small": {
			[]client.Object{unschedulable(needing("5")), nodePool(2, 1, paused), standby()}, time.Minute,
			"StandbyUnavailable pool p: needs 5 cpu, node has 4 left"},
		"a pool that goes, with nodes that are too small": {
			[]client.Object{unschedulable(needing("5")), nodePool(2, 1, deleted), standby()}, time.Minute,
			"StandbyUnavailable pool p: needs 5 cpu, node has 4 left"},
		"its standby node backs off": {
			[]client.Object{unschedulable(needing("1")), nodePool(1, 1, counting(1)),
				standby(markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(time.Hour)))}, time.Minute,
			"StandbyUnavailable pool p: its standby nodes back off after failed starts until " +
				epoch().Add(time.Hour).Format(time.RFC3339)},
		"of two that back off the first to end": {
			[]client.Object{unschedulable(needing("1")), nodePool(2, 1, counting(2)),
				standby(markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(time.Hour))),
				standby(second, markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(2*time.Minute)))}, time.Minute,
			"back off after failed starts until " + epoch().Add(2*time.Minute).Format(time.RFC3339)},
		"of two reasons the first node's, by name": {
			[]client.Object{unschedulable(needing("1")), nodePool(2, 1), standby(annotated(v1alpha1.AnnotationDoNotStart,
				"true")), standby(second, annotated(v1alpha1.AnnotationCordoned, ""))},
			time.Minute, "ColdLaunch pool p: its standby nodes are not startable: cordoned by another client: launching",
		},
		"no room beside the pods of DaemonSets": {
			[]client.Object{unschedulable(needing("3950m")), nodePool(2, 1), standby(), agents()}, time.Minute,
			"StandbyUnavailable pool p: needs 3950m cpu, node has 3900m left",
		},
		"nor on an instance of a pool that has none running": {
			[]client.Object{unschedulable(needing("3950m")), nodePool(2, 1), nodeIn(v1alpha1.StateRunning), agents()},
			time.Minute, "StandbyUnavailable pool p",
		},
		"room beside them": {
			[]client.Object{unschedulable(needing("3900m")), nodePool(2, 1, counting(1)), nodeIn(v1alpha1.StateRunning),
				agents()}, time.Minute, "ColdLaunch pool p",
		},
		"too early to say": {[]client.Object{unschedulable()}, 2*time.Second - 1, ""},
		"another replica has claimed": {[]client.Object{unschedulable(), nodePool(2, 1),
			standby(annotated(v1alpha1.AnnotationClaims, "x,a"))}, time.Minute, ""},
		"it is bound": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Spec.NodeName = "c" })},
			time.Minute, ""},
		"it is nominated": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Status.NominatedNodeName = "c" })}, time.Minute, ""},
		"of another scheduler's pod it is said at once": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })}, 0, "StandbyUnavailable there is no NodePool"},
		"its scheduler fails": {[]client.Object{unschedulable(func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = corev1.PodReasonSchedulerError, "no such volume"
		})}, 0, "StandbyUnavailable the scheduler fails: no such volume"},
		"it is gated":                {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated })}, time.Minute, ""},
		"it carries resource claims": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })}, time.Minute, ""},
		"a DaemonSet's starts nothing": {[]client.Object{unschedulable(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		})}, time.Minute, "pods of a DaemonSet start no node"},
		"it asked to be ignored, and why": {[]client.Object{unschedulable(func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"} })}, time.Minute, "annotated stratos.sh/ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.objects...)
			r.now = epoch().Add(c.after)
			r.look(r.looksAfter())
			said := r.said()
			if c.want == "" && len(said) > 0 || c.want != "" && !slices.ContainsFunc(said, func(s string) bool {
				return (strings.Contains(s, "StandbyUnavailable") || strings.Contains(c.want, "ColdLaunch")) &&
					strings.Contains(s, c.want)
			}) {
				t.Errorf("events %q, want %q", said, c.want)
			}
		})
	}
}

// TestAZoneWithoutCapacityIsNamed: the user is to tell it from a node whose own starts fail.
func TestAZoneWithoutCapacityIsNamed(t *testing.T) {
	r := newRig(t, unschedulable(needing("1")), nodePool(1, 1, counting(1)), nodeIn(v1alpha1.StateStandby,
		markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(time.Hour)), func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelInstanceTypeStable] = "z", "m5.large"
		}))
	look := r.looksAfter()
	look.State.MarkOfferingUnavailable(decide.Offering{Zone: "z", Type: "m5.large"}, epoch())
	r.now = epoch().Add(time.Minute)
	r.look(look)
	want := "pool p: zone z has no capacity for m5.large; next try after " + epoch().Add(time.Hour).Format(time.RFC3339)
	if said := r.said(); !strings.Contains(strings.Join(said, "\n"), want) {
		t.Errorf("events %q, want %q", said, want)
	}
}

// TestAReasonIsSaidAgainWhileThePodWaits: the API server forgets an event after an hour.
func TestAReasonIsSaidAgainWhileThePodWaits(t *testing.T) {
	r := newRig(t, unschedulable(needing("5")), nodePool(2, 1), nodeIn(v1alpha1.StateStandby))
	look := r.looksAfter()
	said := 0
	for minute := 1; minute <= 95; minute++ {
		r.now = epoch().Add(time.Duration(minute) * time.Minute)
		r.look(look)
		for _, s := range r.said() {
			if !strings.Contains(s, "StandbyUnavailable pool p: needs 5 cpu") {
				t.Errorf("event %q", s)
			}
			said++
		}
	}
	if said != 4 {
		t.Errorf("said %d times in 95 minutes, want 4: at once and every half hour", said)
	}
}

// The replica that made a pod's claim may have died before it published that. Stratos makes the
// scheduler, which was told to wait, ask again, and launches no instance while there is a standby
// node. It does so once, because the scheduler may know a reason that we do not.
func TestAForgottenPodIsAskedAboutAgain(t *testing.T) {
	standby := func(change ...func(*corev1.Node)) *corev1.Node {
		return nodeIn(v1alpha1.StateStandby, append([]func(*corev1.Node){func(n *corev1.Node) { n.Spec.Unschedulable = true },
			annotated(v1alpha1.AnnotationCordoned, "true")}, change...)...)
	}
	pool := func() *v1alpha1.NodePool { return nodePool(5, 0, counting(1)) }
	yes := true
	ofDaemonSet := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want []string
		// late: the node is touched an hour later only.
		late bool
	}{
		"a standby node would take it": {pod: unschedulable(needing("1")), node: standby(),
			want: []string{"patch c standby"}},
		"the node runs": {pod: unschedulable(needing("1")), node: nodeIn(v1alpha1.StateRunning),
			want: []string{"pool p"}},
		"it does not fit": {pod: unschedulable(needing("5")), node: standby()},
		"the node backs off": {pod: unschedulable(needing("1")), late: true, want: []string{"pool p"},
			node: standby(markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(time.Hour)))},
		"a person keeps the node back": {pod: unschedulable(needing("1")), want: []string{"pool p"},
			node: standby(annotated(v1alpha1.AnnotationDoNotStart, "true"))},
		"another replica has a promise": {pod: unschedulable(needing("1")),
			node: standby(annotated(v1alpha1.AnnotationClaims, "a"))},
		"it starts no node": {pod: unschedulable(needing("1"), ofDaemonSet), node: standby()},
		"its scheduler never asks": {pod: unschedulable(needing("5"),
			func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), node: standby()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.pod, pool(), c.node)
			r.now = epoch().Add(time.Minute)
			look := r.looksAfter()
			r.look(look)
			r.want(c.want...)
			if slices.Contains(c.want, "patch c standby") {
				if said := r.said(); len(said) > 0 || len(r.demand.Of("p")) > 0 {
					t.Errorf("events %q, demand %v: too early", said, r.demand.Of("p"))
				}
			}
			r.now = r.now.Add(time.Hour)
			r.look(look)
			if got := slices.Contains(r.log, "patch c standby"); got != c.late {
				t.Errorf("touched an hour later: %v, want %v", got, c.late)
			}
			r.log = nil
			r.now = r.now.Add(time.Hour)
			r.look(look)
			if slices.Contains(r.log, "patch c standby") {
				t.Error("touched again")
			}
		})
	}
}

// A pod for which only nodes in backoff would start is looked at when the first of these ends. No
// event of the pod or the node says so.
func TestAPodIsReconciledAtTheEndOfABackoff(t *testing.T) {
	backsOff := func(name string, until time.Duration) client.Object {
		return nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) { n.Name, n.UID = name, types.UID("uid-"+name) },
			markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(until)))
	}
	for name, c := range map[string]struct {
		nodes []client.Object
		after time.Duration
		want  time.Duration
	}{
		"no node backs off": {[]client.Object{nodeIn(v1alpha1.StateRunning)}, time.Minute, time.Minute},
		"for an hour":       {[]client.Object{backsOff("b", time.Hour)}, time.Minute, time.Minute},
		"the first of two ends in 20 s": {
			[]client.Object{backsOff("b", time.Hour), backsOff("c", 80*time.Second)}, time.Minute, 20 * time.Second,
		},
		"it ends in a moment": {
			[]client.Object{backsOff("b", 80*time.Second)}, 80*time.Second - time.Millisecond, 100 * time.Millisecond,
		},
	} {
		for _, scheduler := range []string{v1alpha1.SchedulerName, corev1.DefaultSchedulerName} {
			t.Run(name+"/"+scheduler, func(t *testing.T) {
				pod := unschedulable(needing("1"), func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler })
				r := newRig(t, append([]client.Object{pod, nodePool(1, 1, counting(1))}, c.nodes...)...)
				r.now = epoch().Add(c.after)
				look := r.looksAfter()
				at := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
				got, err := look.Reconcile(t.Context(), at)
				if err == nil && got.RequeueAfter == 2*time.Second { // it gave the scheduler a moment first
					got, err = look.Reconcile(t.Context(), at)
				}
				if err != nil || got.RequeueAfter != c.want {
					t.Errorf("%+v, %v: want another reconcile after %v", got, err, c.want)
				}
			})
		}
	}
}

// A scheduler without its extender fails over every pod; the gauge is what an alert can be made of.
func TestPodsOverWhichTheSchedulerFailsAreCounted(t *testing.T) {
	failed := func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError }
	for name, c := range map[string]struct {
		then func(*rig, *corev1.Pod) error
	}{
		"until it is tried again": {func(r *rig, p *corev1.Pod) error {
			p.Status.Conditions[0].Reason = corev1.PodReasonUnschedulable
			return r.api.Status().Update(r.t.Context(), p)
		}},
		"until it is bound": {func(r *rig, p *corev1.Pod) error {
			p.Spec.NodeName = "c"
			return r.api.Update(r.t.Context(), p)
		}},
		"until it is deleted": {func(r *rig, p *corev1.Pod) error { return r.api.Delete(r.t.Context(), p) }},
	} {
		t.Run(name, func(t *testing.T) {
			pod := unschedulable(failed)
			r := newRig(t, pod, nodePool(2, 1))
			r.promise("a", "c") // its claim does not help it
			look := r.looksAfter()
			count := func() float64 {
				return testutil.ToFloat64(r.nodes.Metrics.SchedulerErrors.WithLabelValues(v1alpha1.SchedulerName))
			}
			for range 2 {
				r.look(look)
				if got := count(); got != 1 {
					t.Fatalf("%v pods, want 1", got)
				}
			}
			if err := r.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			if err := c.then(r, pod); err != nil {
				t.Fatal(err)
			}
			r.look(look)
			if got := count(); got != 0 {
				t.Errorf("%v pods, want none", got)
			}
		})
	}
}

// A pod that a running node takes is the scheduler's: only if it still waits later is an instance
// launched for it.
func TestNothingIsLaunchedForAPodThatARunningNodeTakes(t *testing.T) {
	r := newRig(t, unschedulable(needing("1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }),
		nodePool(2, 1, counting(1)), nodeIn(v1alpha1.StateRunning))
	c := r.looksAfter()
	r.look(c)
	if got := r.said(); len(got) > 0 || len(r.demand.Of("p")) > 0 {
		t.Errorf("events %q and demand %v at first, want none", got, r.demand.Of("p"))
	}
	r.look(c)
	if got := r.said(); len(got) != 1 || !strings.Contains(got[0], "ColdLaunch") || len(r.demand.Of("p")) != 1 {
		t.Errorf("events %q and demand %v, want a launch for a pod that its scheduler refuses still", got, r.demand.Of("p"))
	}
}

// After a restart the pods may come before the nodes do.
func TestNoPodIsJudgedByHalfAView(t *testing.T) {
	r := newRig(t, unschedulable(), nodePool(2, 1))
	r.now = epoch().Add(time.Minute)
	c := r.looksAfter()
	whole := c.State
	c.State, c.Ready = cluster.New(r.ledger, func() time.Time { return r.now }),
		func() error { return errors.New("not synced") }
	again, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default",
		Name: "a"}})
	if err != nil || again.RequeueAfter <= 0 || again.RequeueAfter > time.Second {
		t.Errorf("%+v, %v: want another look soon", again, err)
	}
	if said, pods := r.said(), r.demand.Of("p"); len(said) > 0 || len(pods) > 0 {
		t.Errorf("events %q and demand %v before the view was whole", said, pods)
	}
	c.State, c.Ready = whole, func() error { return nil }
	r.look(c)
	if said := r.said(); len(said) == 0 {
		t.Error("nothing is said of the pod once the view is whole")
	}
}

// An instance that was launched for a pod fills the pool. The pod goes on wanting it until it is
// there, and no other pool launches as well.
func TestDemandLastsUntilTheLaunchedNodeIsThere(t *testing.T) {
	warmingNode := nodeIn(v1alpha1.StateWarmup, func(n *corev1.Node) { n.Name, n.UID = "new", "uid-new" })
	other := nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Name, p.Spec.Weight = "q", new(int32(5)) })
	for name, c := range map[string]struct {
		before, after []client.Object
		warmup        int32
		want          int
	}{
		"no Node yet, the pool's first": {nil, nil, 1, 1},
		"its Node has registered":       {nil, []client.Object{warmingNode}, 1, 1},
		"beside nodes in use":           {[]client.Object{nodeIn(v1alpha1.StateRunning)}, []client.Object{warmingNode}, 1, 1},
		"it came to nothing":            {[]client.Object{nodeIn(v1alpha1.StateRunning)}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			size := int32(1 + len(c.before))
			pool := nodePool(size, 0, counting(size-1))
			r := newRig(t, append([]client.Object{unschedulable(needing("1")), pool}, c.before...)...)
			r.now = epoch().Add(time.Minute)
			r.look(r.looksAfter())
			if got := len(r.demand.Of("p")); got != 1 {
				t.Fatalf("set-up: %d pods in demand, want 1", got)
			}
			r.said()
			pool.Status.Total, pool.Status.Warmup = size, c.warmup
			if err := r.api.Status().Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			for _, o := range append(c.after, other) {
				if err := r.api.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
					t.Fatal(err)
				}
			}
			r.look(r.looksAfter())
			if p, q := len(r.demand.Of("p")), len(r.demand.Of("q")); p != c.want || q != 1-c.want {
				t.Errorf("demand of %d in p and %d in q, want %d and %d", p, q, c.want, 1-c.want)
			}
			if said := r.said(); c.want == 1 && len(said) > 0 {
				t.Errorf("events %q, want none: it was told of its launch", said)
			}
		})
	}
}

// A pool whose launches are refused, or whose warm-ups back off, launches for a pod only where no
// other pool could. Its pods are reconciled again when that begins; the next process learns it by a
// refusal.
func TestLaunchesGoToAPoolThatLaunches(t *testing.T) {
	none := &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: errors.New("sold out")}
	refused := func(err error) func(*rig) {
		return func(r *rig) {
			r.launching = func(int) error { return err }
			r.reconcilePool()
			r.launching = nil
		}
	}
	twice := func(pause time.Duration, second error) func(*rig) {
		return func(r *rig) {
			refused(none)(r)
			r.now = r.now.Add(pause)
			refused(second)(r)
		}
	}
	const other = "the other pool"
	for name, c := range map[string]struct {
		happens func(*rig)
		after   time.Duration
		// fails is until when launches of the other pool fail, from then on.
		fails time.Duration
		want  string
		looks int
	}{
		"nothing is refused":           {happens: func(*rig) {}, want: "p"},
		"no capacity":                  {happens: refused(none), want: other, looks: 1},
		"the class is wrong":           {happens: refused(&provider.InvalidConfigError{}), want: other, looks: 1},
		"no answer":                    {happens: refused(errors.New("connection reset")), want: "p"},
		"just before it is forgotten":  {happens: refused(none), after: 179 * time.Second, want: other, looks: 1},
		"after that":                   {happens: refused(none), after: 3 * time.Minute, want: "p", looks: 1},
		"the other one is refused too": {happens: refused(none), fails: time.Minute, want: "p", looks: 1},
		"it is refused again":          {happens: twice(launchRetry, none), want: other, looks: 1},
		"it is refused anew":           {happens: twice(3*time.Minute, none), want: other, looks: 2},
		"it launches again":            {happens: twice(launchRetry, nil), want: "p", looks: 1},
		"its warm-ups back off":        {happens: (*rig).endsAtOnce, after: 30 * time.Second, want: other, looks: 1},
		"no longer":                    {happens: (*rig).endsAtOnce, after: time.Minute, want: "p", looks: 1},
	} {
		for _, lighter := range []string{"o", "q"} { // before and after the pool by name
			t.Run(name+"/"+lighter, func(t *testing.T) {
				r := newRig(t, unschedulable(needing("1")), nodePool(5, 0), nodePool(5, 0, func(p *v1alpha1.NodePool) {
					p.Name, p.UID, p.Spec.Weight = lighter, types.UID("uid-"+lighter), new(int32(5))
				}))
				r.class(metav1.ConditionTrue, "")
				r.now = epoch().Add(time.Minute)
				r.sweep()
				r.look(r.looksAfter())
				if len(r.demand.Of("p")) != 1 {
					t.Fatal("set-up: the heavier pool is not asked")
				}
				c.happens(r)
				if c.fails > 0 {
					r.demand.LaunchesFail(v1alpha1.PoolName(lighter), r.now.Add(c.fails), r.now)
				}
				if looks := strings.Count(strings.Join(r.log, "\n"), "look at a"); looks != c.looks {
					t.Errorf("the pod is reconciled %d times more, want %d: %q", looks, c.looks, r.log)
				}
				r.now = r.now.Add(c.after)
				// Another pod of the name: one whose pool warms up an instance stays there.
				next := unschedulable(needing("1"), func(p *corev1.Pod) { p.UID = "next" })
				err := errors.Join(r.api.Delete(t.Context(), unschedulable()), r.api.Create(t.Context(), next))
				if err != nil {
					t.Fatal(err)
				}
				r.look(r.looksAfter())
				for pool, want := range map[string]bool{"p": c.want == "p", lighter: c.want == other} {
					if got := len(r.demand.Of(v1alpha1.PoolName(pool))); (got == 1) != want {
						t.Errorf("pool %s is asked for %d, want all from %s", pool, got, c.want)
					}
				}
			})
		}
	}
}

func TestExplainSaysWhereVolumesAre(t *testing.T) {
	mounted := func(p *corev1.Pod) {
		p.Spec.SchedulerName = "default-scheduler"
		p.Spec.Volumes = []corev1.Volume{
			{
				Name: "d",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				},
			},
		}
	}
	r := newRig(t, unschedulable(needing("1"), mounted), nodePool(2, 1, counting(1)), nodeIn(v1alpha1.StateStandby))
	c := r.looksAfter()
	for _, step := range []struct {
		event func()
		want  string
	}{
		{func() {}, `persistentvolumeclaim "data" not found`},
		{func() {
			c.State.SetClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}})
		}, "pod has unbound immediate PersistentVolumeClaims"},
	} {
		step.event()
		r.look(c)
		if got := r.said(); len(got) != 1 ||
			!strings.Contains(got[0], "StandbyUnavailable pool p: volume claim data cannot be used there: "+step.want) {
			t.Errorf("events %q, want %q", got, step.want)
		}
	}
	if len(r.demand.Of("p")) > 0 {
		t.Error("an instance is to be launched, and would not help")
	}
}

func TestExplainSaysAReasonOnceUntilItChanges(t *testing.T) {
	r := newRig(t, unschedulable())
	r.now = epoch().Add(time.Minute)
	e := r.looksAfter()
	r.look(e)
	r.look(e)
	if got := r.said(); len(got) != 1 {
		t.Errorf("events %q, want one", got)
	}
	e.State.SetPool(nodePool(2, 1))
	r.look(e)
	if got := r.said(); len(got) != 1 || !strings.Contains(got[0], "no node yet") {
		t.Errorf("events %q, want the new reason", got)
	}
	r.promise("a", "c")
	r.look(e)
	r.ledger.Release("a", "", r.now)
	r.look(e)
	if got := r.said(); len(got) != 1 {
		t.Errorf("events %q, want the reason again: the pod had a claim between", got)
	}
}
