package plan

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// BenchmarkNodesFor places n pods on empty nodes: all alike, and each of a size of its own.
func BenchmarkNodesFor(b *testing.B) {
	for _, n := range []int{125, 250, 500, 1000, 4000} {
		for name, cpu := range map[string]func(i int) int64{
			"alike": func(int) int64 { return 1000 },
			"mixed": func(i int) int64 { return 100 + int64(i*7919%1900) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				pods := cpuPods(n, "1")
				for i, p := range pods {
					p.Spec.Containers[0].Resources.Requests["cpu"] = *resource.NewMilliQuantity(cpu(i), resource.DecimalSI)
				}
				node := &decide.Node{Node: fit.Node{Name: "n", Allocatable: fit.Resources{MilliCPU: 4000, Pods: 110}}}
				b.ReportAllocs()
				for b.Loop() {
					if nodesFor(pods, node) == 0 {
						b.Fatal("no node")
					}
				}
			})
		}
	}
}
