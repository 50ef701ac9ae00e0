package extender

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
)

// TestUpkeep: a pod has a claim on a node that runs from second 1 on. When is the node touched, and
// what is said?
func TestUpkeep(t *testing.T) {
	for name, c := range map[string]struct {
		asked  time.Duration // when the scheduler asks; 0: never
		until  time.Duration
		fails  bool
		nudges int
		events int
	}{
		"nobody asks: at once and then each second": {until: 4*time.Second + 500*time.Millisecond, nudges: 4},
		"not within the first 100 ms":               {until: 1090 * time.Millisecond},
		"asked in time":                             {asked: time.Second + 20*time.Millisecond, until: 20 * time.Second},
		"asked after two touches":                   {asked: 2500 * time.Millisecond, until: 20 * time.Second, nudges: 2},
		"a touch that fails is tried again":         {until: 4*time.Second + 500*time.Millisecond, fails: true, nudges: 4},
		"not bound for 30 s: futile, once":          {asked: 1020 * time.Millisecond, until: time.Minute, events: 1},
		"the pause is over: touched once more": {asked: 1020 * time.Millisecond, until: 5 * time.Minute, events: 1,
			nudges: 1},
		"just under 30 s": {asked: 1020 * time.Millisecond, until: 30*time.Second +
			990*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _ := newTestView(time.Now)
				v.SetNode(poolNode("a", v1alpha1.StateStandby))
				touched := 0
				api := fake.NewClientBuilder().WithObjects(poolNode("a",
					v1alpha1.StateRunning)).WithInterceptorFuncs(interceptor.Funcs{
					Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
						opts ...client.PatchOption) error {
						touched++
						if c.fails {
							return errors.New("down")
						}
						if err := w.Patch(ctx, o, p, opts...); err != nil {
							return err
						}
						if o.GetAnnotations()[v1alpha1.AnnotationNudgedAt] == "" {
							t.Error("the touch has left no mark")
						}
						return nil
					},
				}).Build()
				recorder := events.NewFakeRecorder(10)
				u := NewUpkeep(Parts{State: v, Client: api, Events: recorder, Now: time.Now, Log: logr.Discard()})
				ask := func() { v.Decide(cpuPod("x", ""), NamesOf([]string{"a"}), &cluster.Candidates{}, time.Now()) }
				ask()
				time.AfterFunc(time.Second, func() { v.SetNode(poolNode("a", v1alpha1.StateRunning)) })
				if c.asked > 0 {
					time.AfterFunc(c.asked, ask)
				}
				ctx, stop := context.WithTimeout(t.Context(), c.until)
				defer stop()
				if err := u.Start(ctx); err != nil {
					t.Errorf("Start ended with %v", err)
				}
				if touched != c.nudges {
					t.Errorf("touched %d times, want %d", touched, c.nudges)
				}
				if len(recorder.Events) != c.events {
					t.Errorf("%d events, want %d", len(recorder.Events), c.events)
				}
				if c.events > 0 && !strings.Contains(<-recorder.Events,
					"FutileStart node a of pool p runs, but the pod was not bound to it") {
					t.Error("the event is another")
				}
			})
		})
	}
}

// touchCase is nodes that begin to run, first after 50 ms and then one after the other.
type touchCase struct {
	nodes int
	after time.Duration // from one node's beginning to run to the next one's
	// refused: the scheduler asks about each pod 10 ms before our watch shows its node run.
	refused bool
	until   time.Duration
	want    int
}

// TestOneTouchForAllNodes: nodes whose pods are not asked about share a touch, because each brings
// every pending pod back to the scheduler; and the next is a second later.
func TestOneTouchForAllNodes(t *testing.T) {
	for name, c := range map[string]touchCase{
		"they begin to run together": {nodes: 3, until: 1500 * time.Millisecond, want: 2},
		"within 100 ms":              {nodes: 3, after: 40 * time.Millisecond, until: 1500 * time.Millisecond, want: 2},
		// 100 ms after each has begun, and then once a second for all three: 1.5 and 2.5 s.
		"one after the other": {nodes: 3, after: 200 * time.Millisecond, until: 2900 * time.Millisecond, want: 5},
		// At once for the first, and then each 100 ms as long as there is a new one.
		"a burst of which each pod was just refused": {nodes: 10, after: 25 * time.Millisecond, refused: true,
			until: time.Second, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOneTouch(t, c) })
		})
	}
}

func testOneTouch(t *testing.T, c touchCase) {
	v, _ := newTestView(time.Now)
	var nodes []client.Object
	ask := func(name string) {
		v.Decide(cpuPod("pod-"+name, ""), NamesOf([]string{name}), &cluster.Candidates{}, time.Now())
	}
	for i := range c.nodes {
		name := fmt.Sprint("node-", i)
		v.SetNode(poolNode(name, v1alpha1.StateStandby))
		nodes = append(nodes, poolNode(name, v1alpha1.StateRunning))
		ask(name)
	}
	touched := 0
	api := fake.NewClientBuilder().WithObjects(nodes...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			touched++
			return nil
		},
	}).Build()
	u := NewUpkeep(Parts{State: v, Client: api, Events: events.NewFakeRecorder(10), Now: time.Now,
		Log: logr.Discard()})
	<-time.After(time.Second)
	for i, n := range nodes {
		runs := 50*time.Millisecond + time.Duration(i)*c.after
		if c.refused {
			time.AfterFunc(runs-10*time.Millisecond, func() { ask(n.GetName()) })
		}
		time.AfterFunc(runs, func() { v.SetNode(poolNode(n.GetName(), v1alpha1.StateRunning)) })
	}
	ctx, stop := context.WithTimeout(t.Context(), c.until)
	defer stop()
	if err := u.Start(ctx); err != nil {
		t.Errorf("Start ended with %v", err)
	}
	if touched != c.want {
		t.Errorf("touched %d times within %s, want %d", touched, c.until, c.want)
	}
}

// TestLateStartsAreAskedForAgain: a claim is made in second 0. The Starter is asked again from
// second 30 on, every ten seconds, as long as no start shows.
func TestLateStartsAreAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		then func(*cluster.State)
		want int
	}{
		"the node still stands by": {poolNode("a", v1alpha1.StateStandby), func(*cluster.State) {}, 4},
		"its drain goes on":        {poolNode("a", v1alpha1.StateStopping, drainedEmpty), func(*cluster.State) {}, 4},
		"it starts": {poolNode("a", v1alpha1.StateStandby), func(v *cluster.State) {
			v.SetNode(poolNode("a", v1alpha1.StateStarting))
		}, 0},
		"the pod is deleted": {poolNode("a", v1alpha1.StateStandby), func(v *cluster.State) { v.DeletePod(cpuPod("x", "")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _ := newTestView(time.Now)
				v.SetNode(c.node)
				v.Decide(cpuPod("x", ""), NamesOf([]string{"a"}), &cluster.Candidates{}, time.Now())
				c.then(v)
				var asked recordedStarter
				u := NewUpkeep(Parts{State: v, Starter: &asked, Events: events.NewFakeRecorder(10), Now: time.Now,
					Log: logr.Discard()})
				for range 30*50 - 1 {
					u.Once(t.Context())
					<-time.After(upkeepEvery)
				}
				if len(asked) > 0 {
					t.Errorf("asked %d times before 30 s were over", len(asked))
				}
				for range 35 * 50 {
					u.Once(t.Context())
					<-time.After(upkeepEvery)
				}
				if len(asked) != c.want {
					t.Errorf("asked %d times, want %d", len(asked), c.want)
				}
			})
		})
	}
}

func drainedEmpty(n *corev1.Node) {
	n.Annotations[v1alpha1.AnnotationStopReason], n.Annotations[v1alpha1.AnnotationCordoned] = string(v1alpha1.StopEmpty),
		"true"
	n.Spec.Unschedulable = true
}

// TestAClaimedPodThatWasRefusedIsNudged: the claimed node runs from second 1 on, and a user's taint
// keeps it closed. The scheduler sees the taint go in second 3, and our watch 50 ms later.
func TestAClaimedPodThatWasRefusedIsNudged(t *testing.T) {
	closed := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "closed", Effect: corev1.TaintEffectNoSchedule}}
	}
	for name, c := range map[string]struct {
		asked  []time.Duration
		nudges int
	}{
		"asked in between":                     {[]time.Duration{1020 * time.Millisecond, 3010 * time.Millisecond}, 1},
		"asked a second before":                {[]time.Duration{1020 * time.Millisecond, 2 * time.Second}, 1},
		"asked when our watch shows it open":   {[]time.Duration{1020 * time.Millisecond, 3060 * time.Millisecond}, 0},
		"asked in between, and again after it": {[]time.Duration{3010 * time.Millisecond, 3100 * time.Millisecond}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _ := newTestView(time.Now)
				v.SetNode(poolNode("a", v1alpha1.StateStandby))
				touched := 0
				api := fake.NewClientBuilder().WithObjects(poolNode("a",
					v1alpha1.StateRunning)).WithInterceptorFuncs(interceptor.Funcs{
					Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
						touched++
						return nil
					},
				}).Build()
				u := NewUpkeep(Parts{State: v, Client: api, Events: events.NewFakeRecorder(10), Now: time.Now,
					Log: logr.Discard()})
				ask := func() { v.Decide(cpuPod("x", ""), NamesOf([]string{"a"}), &cluster.Candidates{}, time.Now()) }
				ask()
				time.AfterFunc(time.Second, func() { v.SetNode(poolNode("a", v1alpha1.StateRunning, closed)) })
				time.AfterFunc(3050*time.Millisecond, func() { v.SetNode(poolNode("a", v1alpha1.StateRunning)) })
				for _, at := range c.asked {
					time.AfterFunc(at, ask)
				}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				defer stop()
				if err := u.Start(ctx); err != nil {
					t.Errorf("Start ended with %v", err)
				}
				if touched != c.nudges {
					t.Errorf("touched %d times, want %d", touched, c.nudges)
				}
			})
		})
	}
}
