package start

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// draining is the Node of a node that is drained because it is empty.
func draining(change ...func(*corev1.Node)) *corev1.Node {
	return nodeIn(v1alpha1.StateStopping, append([]func(*corev1.Node){
		annotated(v1alpha1.AnnotationStopReason, string(v1alpha1.StopEmpty)), annotated(v1alpha1.AnnotationCordoned, "true"),
		func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
		},
	}, change...)...)
}

// TestTakeBack: a pod has claimed a node that is being drained. Before the stop intent the drain is
// cancelled; after it the stop is not cancelled, and the pod has to go elsewhere.
func TestTakeBack(t *testing.T) {
	intended := annotated(v1alpha1.AnnotationStopIntent, "2026-03-01T12:00:00Z")
	for name, c := range map[string]struct {
		live     *corev1.Node
		cached   *corev1.Node // nil: as it is
		claims   bool
		want     []string
		state    v1alpha1.NodeState
		homeless []string
	}{
		"before the intent": {live: draining(), claims: true, want: []string{"patch c running claims "},
			state: v1alpha1.StateRunning},
		"nobody claims it any more": {live: draining(), state: v1alpha1.StateStopping},
		"drained for another reason": {live: draining(annotated(v1alpha1.AnnotationStopReason, "deleted")), claims: true,
			state: v1alpha1.StateStopping},
		"the intent stands": {live: draining(intended), claims: true, want: []string{"patch refused"},
			state: v1alpha1.StateStopping, homeless: []string{"a"}},
		"the cache shows no intent": {live: draining(intended), cached: draining(), claims: true,
			want: []string{"patch refused"}, state: v1alpha1.StateStopping, homeless: []string{"a"}},
		"it is standby by now": {live: nodeIn(v1alpha1.StateStandby), cached: draining(), claims: true,
			want: []string{"patch refused"}, state: v1alpha1.StateStandby, homeless: []string{"a"}},
		"the scaler has cancelled the drain for the claim": {live: nodeIn(v1alpha1.StateRunning), cached: draining(),
			claims: true, want: []string{"patch refused"}, state: v1alpha1.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.live)
				r.cached.Store(c.cached)
				if c.claims {
					r.promise("a")
				}
				r.run(func() { r.starter.StartNode("c") })
				r.want(c.want...)
				n := r.node()
				if got := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]); got != c.state {
					t.Errorf("state %s, want %s", got, c.state)
				}
				if c.state == v1alpha1.StateRunning && (n.Spec.Unschedulable || len(n.Spec.Taints) > 0) {
					t.Errorf("cordoned %v, taints %v: the pod cannot be bound", n.Spec.Unschedulable, n.Spec.Taints)
				}
				if diff := cmp.Diff(c.homeless, r.homeless, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("homeless (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// waiter is a pod of one cpu that is bound nowhere.
func waiter(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	return p
}

// ofOneCPU is a standby Node "name" of instance "i-name".
func ofOneCPU(name string) *corev1.Node {
	return nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) {
		n.Name, n.UID = name, types.UID("uid-"+name)
		n.Spec.ProviderID = "fake:///zone-a/i-" + name
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("10")}
	})
}

// placerRig is a Placer with a view of the rig's Nodes, which follows the API server's patches as a
// watch would.
type placerRig struct {
	*rig
	placer *Placer
}

func newPlacerRig(t *testing.T, nodes ...*corev1.Node) *placerRig {
	r := &placerRig{rig: newRig(t, nodes...)}
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.PoolSize, pool.Spec.ScaleUp.StartBudget = 10, new(int32(100))
	r.view.SetPool(pool)
	for _, n := range nodes {
		r.view.SetNode(n)
	}
	r.placer = NewPlacer(r.view, r.starter, r.events, time.Now)
	r.view.Listen(cluster.Listener{ClaimsLost: r.placer.Reschedule})
	return r
}

func (r *placerRig) runBoth(f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- r.placer.Start(ctx) }()
	r.run(f)
	stop()
	if err := <-done; err != nil {
		r.t.Errorf("the placer ended with %v", err)
	}
}

// A start fails for want of capacity: the pod's claim moves to another node in the same step, with
// no ask of a scheduler.
func TestPlacerMovesPodsWhoseStartFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
		r.view.SetPod(waiter("x"))
		r.answer = func(int) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.starts("i-b") == 0 {
				return &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a"}
			}
			return nil
		}
		r.runBoth(func() {
			if d := r.placer.Place(waiter("x")); d.Kind != decide.Started || d.Claim.Node != "a" {
				t.Errorf("%s: %+v, want a start of a", d.Kind, d.Claim)
			}
			<-time.After(time.Minute)
		})
		if c, _ := r.view.ClaimOf("x"); c.Node != "b" {
			t.Errorf("the pod's claim is on %q, want b", c.Node)
		}
		// The rig's view never sees what was written to a, as one that lags: it must not choose a again
		// all the same.
		r.want("patch a starting claims x", "start i-a", "patch a standby claims ", "patch b starting claims x", "start i-b")
		if said := r.said(); !slices.ContainsFunc(said, func(s string) bool {
			return strings.Contains(s,
				"StandbyStarting")
		}) {
			t.Errorf("events %q, want StandbyStarting", said)
		}
	})
}

// TestPlacerPlacesTheHomeless: whose pods are placed anew, and what is started for them.
func TestPlacerPlacesTheHomeless(t *testing.T) {
	for name, c := range map[string]struct {
		waits bool
		want  []string
	}{
		"a pod that waits":            {true, []string{"patch a starting claims x", "start i-a"}},
		"a pod that is bound or gone": {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPlacerRig(t, ofOneCPU("a"))
				if c.waits {
					r.view.SetPod(waiter("x"))
				}
				r.runBoth(func() {
					r.placer.Reschedule([]decide.Claim{{Pod: "x"}})
					synctest.Wait()
				})
				r.want(c.want...)
			})
		})
	}
}

// The one that is displaced is placed in turn: on the next node.
func TestPlacerPlacesTheDisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
		low, high := waiter("low"), waiter("high")
		ten := int32(10)
		high.Spec.Priority = &ten
		r.view.SetPod(low)
		r.view.SetPod(high)
		r.runBoth(func() {
			r.placer.Place(low)
			synctest.Wait()
			r.placer.Place(high)
			synctest.Wait()
		})
		at := func(pod types.UID) v1alpha1.NodeName { c, _ := r.view.ClaimOf(pod); return c.Node }
		if at("high") != "a" || at("low") != "b" {
			t.Errorf("high is promised %q, low %q; want a, b", at("high"), at("low"))
		}
		if r.starts("i-a") != 1 || r.starts("i-b") != 1 {
			t.Errorf("log %v, want each node started once", r.log)
		}
	})
}

// A node that runs takes the pod: its scheduler will find it, and nothing is started or claimed.
func TestPlacerLeavesRoomThatIsThereToTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := ofOneCPU("a")
		n.Labels[v1alpha1.LabelState] = string(v1alpha1.StateRunning)
		r := newPlacerRig(t, n, ofOneCPU("b"))
		r.runBoth(func() {
			if d := r.placer.Place(waiter("x")); d.Kind != decide.Pass || d.Claim != nil {
				t.Errorf("verdict %s with claim %v, want %s and none", d.Kind, d.Claim, decide.Pass)
			}
		})
		r.want()
	})
}

// The cluster may change between the snapshot and the decision. A pod that is bound or gone by then
// gets no claim, because no event would ever end it. Room that was taken meanwhile is not claimed.
func TestPlacerDecidesByWhatIsThereThen(t *testing.T) {
	onNode := func(name, node string) *corev1.Pod {
		p := waiter(name)
		p.Spec.NodeName = node
		return p
	}
	for name, c := range map[string]struct {
		meanwhile func(*cluster.State)
		want      []string
	}{
		"nothing happens":    {func(*cluster.State) {}, []string{"patch a starting claims x", "start i-a"}},
		"the pod is bound":   {func(v *cluster.State) { v.SetPod(onNode("x", "elsewhere")) }, nil},
		"the pod is deleted": {func(v *cluster.State) { v.DeletePod(waiter("x")) }, nil},
		"another pod takes the room": {func(v *cluster.State) { v.SetPod(onNode("y", "a")) },
			[]string{"patch b starting claims x", "start i-b"}},
		"the node is gone": {func(v *cluster.State) { v.DeleteNode("a") },
			[]string{"patch b starting claims x", "start i-b"}},
		"the node is kept back by a person": {func(v *cluster.State) { v.SetNode(cordonedByHand(ofOneCPU("a"))) },
			[]string{"patch b starting claims x", "start i-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
				r.view.SetPod(waiter("x"))
				r.placer.now = func() time.Time { // the nodes have been looked up, and nothing is decided yet
					c.meanwhile(r.view)
					return time.Now()
				}
				r.runBoth(func() {
					r.placer.Reschedule([]decide.Claim{{Pod: "x"}})
					synctest.Wait()
				})
				r.want(c.want...)
				<-time.After(time.Millisecond)
				r.view.SetNode(ofOneCPU("later")) // a pod that was refused a moment ago would have missed it
				if missed, _ := r.view.Missed(); c.want == nil && missed {
					t.Error("a pod is remembered of which nothing will be heard")
				}
			})
		})
	}
}

func cordonedByHand(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}
