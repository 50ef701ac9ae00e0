package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// naming is a change of a Node: it names these pods as those that have claims on it.
func naming(pods string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = pods }
}

// TestAClaimThatIsNotPublishedAnyMoreIsDropped: another replica has released it, or given its room
// to another pod. The replica that made it places the pod anew.
func TestAClaimThatIsNotPublishedAnyMoreIsDropped(t *testing.T) {
	starting, running := v1alpha1.StateStarting, v1alpha1.StateRunning
	named := func(pods string) *corev1.Node { return poolNode("a", starting, naming(pods)) }
	for name, c := range map[string]struct {
		nodes []*corev1.Node
		on    v1alpha1.NodeName
		lost  bool
	}{
		"it is still published":         {[]*corev1.Node{named("x"), named("x,y")}, "a", false},
		"it is not published yet":       {[]*corev1.Node{poolNode("a", starting), named("y")}, "a", false},
		"it is not published any more":  {[]*corev1.Node{named("x"), named("y")}, "", true},
		"nothing is published any more": {[]*corev1.Node{named("x"), poolNode("a", starting)}, "", true},
		"the node runs, and names none": {[]*corev1.Node{named("x"), poolNode("a", running)}, "a", false},
	} {
		for by, adopted := range map[string]bool{"our own": false, "another replica's": true} {
			t.Run(name+", "+by, func(t *testing.T) {
				on := c.on
				if adopted && c.nodes[0].Annotations[v1alpha1.AnnotationClaims] == "" {
					on = "" // it was never published
				}
				v, l := newTestView()
				homeless, orphaned := 0, 0
				v.Listen(Listener{
					ClaimsLost:      func(claims []decide.Claim) { homeless += len(claims) },
					RemoteClaimLost: func(types.NamespacedName) { orphaned++ },
				})
				v.SetNode(poolNode("a", starting))
				v.SetPod(small("x"))
				if !adopted {
					claimFor(t, v, l, small("x"), "a")
				}
				for _, n := range c.nodes {
					v.SetNode(n)
				}
				if got, _ := l.Of("x"); got.Node != on {
					t.Errorf("the claim is on %q, want %q", got.Node, on)
				}
				if want := c.lost && !adopted; homeless > 0 != want {
					t.Errorf("%d pods to be placed anew here, want some: %v", homeless, want)
				}
				if want := c.lost && adopted; orphaned > 0 != want {
					t.Errorf("%d pods left to the replica that made their claim, want some: %v", orphaned, want)
				}
			})
		}
	}
}

// TestAClaimThatMovedIsFollowed: the replica that made a claim has placed its pod on another node,
// whichever of the two Nodes is seen first.
func TestAClaimThatMovedIsFollowed(t *testing.T) {
	starting := v1alpha1.StateStarting
	from, to := poolNode("a", starting), poolNode("b", starting, naming("x"))
	for name, seen := range map[string][]*corev1.Node{
		"the old node first":      {from, to},
		"the new node first":      {to, from},
		"while the old node runs": {poolNode("a", v1alpha1.StateRunning), to},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetPod(small("x"))
			v.SetNode(poolNode("a", starting, naming("x")))
			v.SetNode(poolNode("b", v1alpha1.StateStandby))
			for _, n := range seen {
				v.SetNode(n)
			}
			if got, _ := l.Of("x"); got.Node != "b" || !got.Adopted {
				t.Errorf("the claim is on %q, adopted %v; want b, adopted", got.Node, got.Adopted)
			}
		})
	}
}

// TestAClaimThatFailedIsNotAdopted: the Node that is seen next may be older than what was written
// of the failure. To take the claim for another replica's would leave the pod to that one.
func TestAClaimThatFailedIsNotAdopted(t *testing.T) {
	v, l := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStarting))
	v.SetPod(small("x"))
	claimFor(t, v, l, small("x"), "a")
	l.BackOffNode("a", epoch().Add(time.Minute))
	l.ReleaseNode("a")
	v.SetNode(poolNode("a", v1alpha1.StateStarting, naming("x")))
	if l.HasClaim("x") {
		t.Error("the claim on a node that failed to start is adopted")
	}
}

// TestStartsOfAnotherReplicaUseUpTheBudget: the leader has to know that a pool starts nothing, and
// so has the replica that the scheduler turns to next. A start of our own counts once.
func TestStartsOfAnotherReplicaUseUpTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		own    bool
		state  v1alpha1.NodeState
		pods   string
		budget int32
		want   decide.Kind
	}{
		"the only start, by another replica":   {false, v1alpha1.StateStarting, "z", 1, decide.Unavailable},
		"the first of two, by another replica": {false, v1alpha1.StateStarting, "z", 2, decide.Started},
		"the first of two, by us":              {true, v1alpha1.StateStarting, "x", 2, decide.Started},
		"for a pod that is bound to the node":  {false, v1alpha1.StateStarting, "", 1, decide.Started},
		"nothing starts":                       {false, v1alpha1.StateStandby, "", 1, decide.Started},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetPool(poolObject("p", 2, func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.StartBudget = &c.budget }))
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
			v.SetNode(poolNode("b", v1alpha1.StateStandby))
			if c.own {
				claimFor(t, v, l, small("x"), "a")
			}
			for range 2 { // a heartbeat of the node is not a start
				v.SetNode(poolNode("a", c.state, naming(c.pods)))
			}
			d := l.Decide(decide.Ask{Pod: small("y"), Nodes: lookUp(v, "b"), World: v.World}, epoch())
			if d.Kind != c.want {
				t.Errorf("verdict %s (%q), want %s", d.Kind, d.Refused, c.want)
			}
		})
	}
}
