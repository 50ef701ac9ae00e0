package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// crowded is a view of n nodes with the given number of pods on each.
func crowded(b *testing.B, n, pods int) *State {
	b.Helper()
	v, _ := newTestView()
	for i := range n {
		v.SetNode(poolNode(fmt.Sprintf("node-%04d", i), v1alpha1.StateRunning))
		for j := range pods {
			v.SetPod(small(fmt.Sprintf("pod-%04d-%d", i, j), on(fmt.Sprintf("node-%04d", i))))
		}
	}
	return v
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// BenchmarkPodEvent is what one event of a pod costs: a status that says something new, and a pod
// that comes and goes.
func BenchmarkPodEvent(b *testing.B) {
	for _, pods := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("status, %d pods to a node", pods), func(b *testing.B) {
			v := crowded(b, 10, pods)
			p := small("pod-0003-0", on("node-0003"))
			b.ReportAllocs()
			for b.Loop() {
				v.SetPod(p)
			}
		})
		b.Run(fmt.Sprintf("bound and gone, %d pods to a node", pods), func(b *testing.B) {
			v := crowded(b, 10, pods)
			p := small("another", on("node-0003"))
			b.ReportAllocs()
			for b.Loop() {
				v.SetPod(p)
				v.DeletePod(p)
			}
		})
	}
}

// BenchmarkWorld is a decision that looks at all nodes after each event of a pod, as those of pods
// with anti-affinity do.
func BenchmarkWorld(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("%d nodes", n), func(b *testing.B) {
			v := crowded(b, n, 1)
			p := small("another", on("node-0003"))
			b.ReportAllocs()
			for b.Loop() {
				v.SetPod(p)
				v.DeletePod(p)
				v.World()
			}
		})
	}
}
