package exact

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// TestExactStartsBesideAFullNode: a node runs and has no room. It is a domain without pods of the burst, and a spread
// that honours taints counts it. The nodes that start for the burst are domains too, from the first claim on.
func TestExactStartsBesideAFullNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, rig.Options{}, corev1.PreemptLowerPriority)
	row := row{
		[]pool{{four, 5, 10}}, each(pods(3, "cpu", "100m"), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyHonor)), 3,
		"one pod to a node, as long as the full one has none",
	}
	warm(t, r, row.pools)
	defer tidy(t, r, row)
	full := named("full", pods(1, "cpu", "4"))
	full[0].Labels = nil
	if started := burst(t, r, full); len(started) != 1 {
		t.Fatalf("set-up: %d nodes were started for one pod", len(started))
	}
	if started := burst(t, r, row.pods); len(started) != row.need {
		t.Errorf("%d nodes were started, want %d: %s", len(started), row.need, row.why)
	}
	promisedOnce(t, r, row.pods)
}
