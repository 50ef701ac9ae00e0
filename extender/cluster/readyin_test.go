package cluster

import (
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestTheUsualTimeOfAStart: every replica reads it in the status of the pool, which leaves the
// generation as it is.
func TestTheUsualTimeOfAStart(t *testing.T) {
	v, l := newTestView()
	v.SetNode(poolNode("n", v1alpha1.StateStandby))
	v.SetPool(poolObject("p", 1))
	v.SetPool(poolObject("p", 1, func(p *v1alpha1.NodePool) {
		p.Status.StartSeconds = &v1alpha1.StartSeconds{P50: 14, P95: 40, Count: 50}
	}))
	pod := cpuPod("a", "")
	claimFor(t, v, l, pod, "n")
	if claim, _ := v.ClaimOf(pod.UID); !strings.Contains(claim.Message, "(usually ready in 14s)") {
		t.Errorf("the claim says %q", claim.Message)
	}
}
