package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// TestOnlyWhoMadeAClaimPlacesItsPodAnew: every replica sees the node fail, and two would find two
// other nodes.
func TestOnlyWhoMadeAClaimPlacesItsPodAnew(t *testing.T) {
	for name, event := range map[string]func(*State){
		"the Node is gone":    func(v *State) { v.DeleteNode("a") },
		"the start fails":     func(v *State) { v.SetNode(poolNode("a", v1alpha1.StateStandby)) },
		"its labels are gone": func(v *State) { v.SetNode(poolNode("a", "")) },
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			var homeless []types.UID
			var orphaned []string
			v.Listen(Listener{
				ClaimsLost: func(claims []decide.Claim) {
					for i := range claims {
						homeless = append(homeless, claims[i].Pod)
					}
				},
				RemoteClaimLost: func(pod types.NamespacedName) { orphaned = append(orphaned, pod.Name) },
			})
			v.SetNode(poolNode("a", v1alpha1.StateStarting))
			v.SetPod(small("own"))
			claimFor(t, v, l, small("own"), "a")
			v.SetPod(small("theirs"))
			v.SetNode(poolNode("a", v1alpha1.StateStarting,
				func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = "own,theirs" }))
			if !l.HasClaim("theirs") {
				t.Fatal("set-up: the published claim is not adopted")
			}
			event(v)
			if l.Count() != 0 {
				t.Errorf("%d claims left on a node that does not start", l.Count())
			}
			if !slices.Equal(homeless, []types.UID{"own"}) || !slices.Equal(orphaned, []string{"theirs"}) {
				t.Errorf("homeless %v, orphaned %v; want own and theirs", homeless, orphaned)
			}
		})
	}
}

// TestANodeThatLostItsPoolsLabelKeepsItsClaims: it is written again at once, and no second node is
// to start meanwhile.
func TestANodeThatLostItsPoolsLabelKeepsItsClaims(t *testing.T) {
	without := func(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
		n := poolNode("a", state, change...)
		delete(n.Labels, v1alpha1.LabelPool)
		return n
	}
	for name, c := range map[string]struct {
		seen  []*corev1.Node
		keeps bool
	}{
		"it starts on without": {[]*corev1.Node{without(v1alpha1.StateStarting),
			without(v1alpha1.StateStarting)}, true},
		"it is written again": {[]*corev1.Node{without(v1alpha1.StateStarting),
			poolNode("a", v1alpha1.StateStarting)}, true},
		"its start fails meanwhile": {[]*corev1.Node{without(v1alpha1.StateStarting),
			without(v1alpha1.StateStandby)}, false},
		"its state is taken too": {[]*corev1.Node{without("",
			func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelState) })}, false},
		"another Node of that name without any": {[]*corev1.Node{without(v1alpha1.StateStarting,
			func(n *corev1.Node) { n.UID = "another" })}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetNode(poolNode("a", v1alpha1.StateStarting))
			v.SetPod(small("x"))
			claimFor(t, v, l, small("x"), "a")
			for _, n := range c.seen {
				v.SetNode(n)
			}
			if got := l.HasClaim("x"); got != c.keeps {
				t.Errorf("claim kept %v, want %v", got, c.keeps)
			}
		})
	}
	v, _ := newTestView()
	v.SetNode(without(v1alpha1.StateStarting))
	if lookUp(v, "a")[0].InPool() {
		t.Error("a Node that was never seen with a pool's label is ours")
	}
}

// TestAPoolMadeAnewStartsAfresh: also where the watch was interrupted, and the deletion of the
// first is never seen by itself.
func TestAPoolMadeAnewStartsAfresh(t *testing.T) {
	for name, c := range map[string]struct {
		uid  types.UID
		want decide.Kind
	}{
		"the same pool, changed":    {"uid-of-the-first", decide.Unavailable},
		"another pool of that name": {"uid-of-the-second", decide.Started},
	} {
		t.Run(name, func(t *testing.T) {
			one := int32(1)
			pool := func(uid types.UID, generation int64) *v1alpha1.NodePool {
				p := poolObject("p", generation)
				p.UID, p.Spec.ScaleUp.StartBudget = uid, &one
				return p
			}
			v, l := newTestView()
			watch := eventsTo(v.SetPool, func(p *v1alpha1.NodePool) { v.DeletePool(v1alpha1.PoolName(p.Name)) })
			watch.OnAdd(pool("uid-of-the-first", 1), false)
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
			v.SetNode(poolNode("b", v1alpha1.StateStandby))
			claimFor(t, v, l, small("first"), "a") // the budget of one start is used up
			watch.OnUpdate(pool("uid-of-the-first", 1), pool(c.uid, 2))
			d := l.Decide(decide.Ask{Pod: small("second"), Nodes: lookUp(v, "b"), World: v.World}, epoch())
			if d.Kind != c.want {
				t.Errorf("verdict %s (%q), want %s", d.Kind, d.Refused, c.want)
			}
		})
	}
}
