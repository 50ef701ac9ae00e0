package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// byStratos is a nomination by Stratos.
func byStratos(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.NominatedNodeName = node
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManagerNomination}}
	}
}

// takes reports whether a node has room for one more pod that asks for so many millicores.
func takes(v *State, milli int64) bool {
	p := small(fmt.Sprintf("asks-for-%dm", milli))
	p.Spec.Containers[0].Resources.Requests["cpu"] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	v.SetPod(p)
	defer v.DeletePod(p)
	d := v.Place(p, epoch())
	return d.Claim != nil || len(d.Nodes) > 0
}

// step is one event of the pod x or of the node a.
type step struct {
	name string
	take func(*testing.T, *State)
}

func (s step) String() string { return s.name }

// The pod has a claim, and the API shows our nomination of it some time. Whatever comes first, and
// whatever follows, the pod takes up its room once: not never, which would give it to another pod,
// and not twice, which would start one more node.
func TestAPodNominatedByStratosCountsOnceInEveryOrder(t *testing.T) {
	shows := func(state v1alpha1.NodeState) step {
		return step{string(state), func(_ *testing.T, v *State) { v.SetNode(poolNode("a", state)) }}
	}
	pod := func(name, on string, change ...func(*corev1.Pod)) step {
		return step{name, func(_ *testing.T, v *State) {
			v.SetPod(small("x", append(change, func(p *corev1.Pod) { p.Spec.NodeName = on })...))
		}}
	}
	ours := pod("ours", "", byStratos("a"))
	way := []step{
		{"claim", func(t *testing.T, v *State) {
			if d := v.Place(v.PendingPod("x"), epoch()); d.Claim == nil {
				t.Fatalf("set-up: no claim: %v %v", d.Kind, d.Refused)
			}
		}},
		shows(v1alpha1.StateStarting), shows(v1alpha1.StateRunning),
	}
	for _, after := range [][]step{
		nil,
		{pod("cleared", "")},
		{pod("cleared", ""), ours},
		{pod("the scheduler's", "", onItsWay("a"))},
		{pod("the scheduler's", "", onItsWay("a")), pod("taken back", "")},
		{pod("the scheduler's", "", onItsWay("a")), pod("bound", "a")},
		{pod("bound", "a")},
		{pod("bound, and the nomination stays, as in 1.34", "a", byStratos("a"))},
	} {
		for at := range len(way) + 1 {
			steps := append(slices.Insert(slices.Clone(way), at, ours), after...)
			t.Run(strings.Trim(fmt.Sprint(steps), "[]"), func(t *testing.T) {
				v, _ := newTestView()
				v.SetNode(poolNode("a", v1alpha1.StateStandby))
				v.SetPod(small("x"))
				for _, s := range steps {
					s.take(t, v)
				}
				if takes(v, 3001) {
					t.Error("3001 m of 4000 are left beside a pod of 1000")
				}
				if !takes(v, 3000) {
					t.Error("3000 m of 4000 are not left beside a pod of 1000")
				}
			})
		}
	}
}

// The next process finds the claim on the Node and our nomination on the pod, in either order.
func TestTheNextProcessCountsAPodNominatedByStratosOnce(t *testing.T) {
	node := poolNode("a", v1alpha1.StateStarting, func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = "x" })
	for name, events := range map[string]func(*State){
		"the Node first": func(v *State) { v.SetNode(node); v.SetPod(small("x", byStratos("a"))) },
		"the pod first":  func(v *State) { v.SetPod(small("x", byStratos("a"))); v.SetNode(node) },
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			events(v)
			if c, _ := l.Of("x"); c.Node != "a" {
				t.Errorf("claim on %q, want the one that the Node names", c.Node)
			}
			if takes(v, 3001) || !takes(v, 3000) {
				t.Error("the pod does not count once")
			}
		})
	}
}

// A nomination by Stratos shows a claim, and no binding that is under way: when the node runs and
// nothing binds the pod, the start was futile as ever.
func TestAClaimIsOverdueInSpiteOfOurNomination(t *testing.T) {
	v, l := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStandby))
	claimFor(t, v, l, small("x"), "a")
	v.SetNode(poolNode("a", v1alpha1.StateRunning))
	v.SetPod(small("x", byStratos("a")))
	if over := l.Overdue(epoch().Add(time.Hour)); len(over) != 1 {
		t.Errorf("%d claims are overdue, want 1", len(over))
	}
}
