package plan

import (
	"fmt"
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func BenchmarkRecycle(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		members := make([]Candidate, nodes)
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
