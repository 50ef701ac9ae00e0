package plan

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

func BenchmarkNodesFor(b *testing.B) {
	pattern := &claim.Node{Node: fit.Node{
		Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}, Allocatable: fit.Resources{MilliCPU: 4000, Pods: 110},
	}}
	for _, pods := range []int{10, 100, 1000} {
		waiting := cpuPods(pods, "1")
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := NodesFor(waiting, pattern); int(got) != (pods+3)/4 {
					b.Fatalf("%d nodes", got)
				}
			}
		})
	}
}

func BenchmarkRecycle(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		members := make([]Member, nodes)
		for i := range members {
			members[i] = standby(v1alpha1.NodeName(fmt.Sprintf("n%04d", i)), drifted)
		}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if turns := Recycle(members, hourly(0), epoch()); len(turns) == 0 {
					b.Fatal("nothing is recycled")
				}
			}
		})
	}
}
