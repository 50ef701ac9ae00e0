package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// TestAnObjectMadeAnewIsAnother: a watch that was interrupted lists again, and shows an object that
// was deleted and created under the same name meanwhile as one update.
func TestAnObjectMadeAnewIsAnother(t *testing.T) {
	second := func(p *corev1.Pod) { p.UID = "second" }
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		used          int64 // cpus on the node "a" afterwards
		claims        bool  // the first pod has a claim there before
		verdict       decide.Kind
	}{
		"the same pod, bound":            {cpuPod("x", ""), cpuPod("x", "a"), 1, false, decide.NotOurs},
		"a bound pod, and its successor": {cpuPod("x", "a"), cpuPod("x", "", second), 0, false, decide.NotOurs},
		"both are bound":                 {cpuPod("x", "a"), cpuPod("x", "a", second), 1, false, decide.NotOurs},
		"a nominated pod, and its successor": {cpuPod("x", "", onItsWay("a")), cpuPod("x", "", second), 0, false,
			decide.NotOurs},
		"a claimed pod, and its successor": {cpuPod("x", ""), cpuPod("x", "", second), 0, true, decide.NotOurs},
		"a claimed pod, and a bound one":   {cpuPod("x", ""), cpuPod("x", "a", second), 1, true, decide.NotOurs},
		"a finished pod, and its successor": {cpuPod("x", "a", inPhase(corev1.PodFailed)), cpuPod("x", "", second), 0,
			false, decide.NotOurs},
		"a pending pod that is still pending": {cpuPod("x", ""), cpuPod("x", ""), 0, false, decide.Started},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
			v.SetNode(poolNode("b", v1alpha1.StateStandby))
			watch := eventsTo(v.SetPod, v.DeletePod)
			watch.OnAdd(c.before, false)
			if c.claims {
				claimFor(t, v, l, c.before, "a")
			}
			watch.OnUpdate(c.before, c.after)
			if used := lookUp(v, "a")[0].Used.MilliCPU; used != 1000*c.used {
				t.Errorf("%d m used, want %d cpu", used, c.used)
			}
			if l.Count() != 0 {
				t.Errorf("%d claims stand", l.Count())
			}
			if d := v.Decide(cpuPod("x", ""), [][]byte{[]byte("b")}, &Candidates{}, epoch()); d.Kind != c.verdict {
				t.Errorf("asked about the first pod again: %s, want %s", d.Kind, c.verdict)
			}
		})
	}
}

// TestANodeMadeAnewIsAnother: nothing is left of the claims on its predecessor, and they are placed
// anew.
func TestANodeMadeAnewIsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		uid   types.UID
		keeps bool
	}{
		"the same Node":            {"first", true},
		"another Node of its name": {"second", false},
	} {
		t.Run(name, func(t *testing.T) {
			node := func(uid types.UID) *corev1.Node {
				return poolNode("a", v1alpha1.StateStarting, func(n *corev1.Node) { n.UID = uid })
			}
			v, l := newTestView()
			homeless := 0
			v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) { homeless += len(claims) }})
			watch := eventsTo(v.SetNode, func(n *corev1.Node) { v.DeleteNode(v1alpha1.NodeName(n.Name)) })
			watch.OnAdd(node("first"), false)
			v.SetPod(small("x"))
			claimFor(t, v, l, small("x"), "a")
			watch.OnUpdate(node("first"), node(c.uid))
			if got := l.HasClaim("x"); got != c.keeps || (homeless == 0) != c.keeps {
				t.Errorf("claim kept %t, %d told of, want kept %t", got, homeless, c.keeps)
			}
			if len(lookUp(v, "a")) != 1 {
				t.Error("the Node is not known")
			}
		})
	}
}
