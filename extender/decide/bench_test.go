package decide

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkDecide measures one question with 5000 candidates, the size that the target of 5 ms for
// /filter names.
func BenchmarkDecide(b *testing.B) {
	const candidates = 5000
	nodes := func(node func(string, ...func(*Node)) *Node, change ...func(*Node)) []*Node {
		out := make([]*Node, candidates)
		for i := range out {
			out[i] = node(fmt.Sprintf("node-%04d", i), change...)
		}
		return out
	}
	for name, c := range map[string]struct {
		nodes []*Node
		again bool
	}{
		"foreign nodes take the pod":            {nodes: nodes(foreign)},
		"foreign nodes are all tainted":         {nodes: nodes(foreign, tainted("gpu", corev1.TaintEffectNoSchedule))},
		"standby nodes, one is started":         {nodes: nodes(standby)},
		"standby nodes with a taint, none fits": {nodes: nodes(standby, tainted("gpu", corev1.TaintEffectNoSchedule))},
		"standby nodes kept back":               {nodes: nodes(standby, keptBackFor("cordoned by another client"))},
		"standby nodes without room":            {nodes: nodes(standby, using("cpu", "4"))},
		"asked again about a waiting pod":       {nodes: nodes(standby), again: true},
	} {
		b.Run(name, func(b *testing.B) {
			l, p := NewClaims(), pod("asked", asking("cpu", "1", "memory", "1Gi"))
			for b.Loop() {
				l.Decide(ask(p, c.nodes...), epoch())
				if !c.again {
					l.Release(p.UID, "", epoch())
				}
			}
		})
	}
}
