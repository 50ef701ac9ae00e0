package failures

import (
	"testing"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// TestFailures plays each fault on a pool of its own; they share one control plane and go on side
// by side. Afterwards every metric has moved.
func TestFailures(t *testing.T) {
	r := newRig(t)
	t.Run("faults", func(t *testing.T) {
		for name, play := range map[string]func(*testing.T, *framework.Rig){
			"no capacity moves the claims, once for a zone and type": noCapacity,
			"a kubelet that never reports is replaced":               silentKubelet,
			"a start that falls back is asked again":                 fallsBack,
			"an instance that never registers is replaced":           neverRegisters,
			"startup taints are put back at each stop":               startupTaints,
			"an attached volume keeps the instance from its stop":    attachedVolume,
			"a disruption budget ends a drain":                       disruptionBudget,
			"marks that people take come back":                       marksTaken,
			"started, stopped and terminated by somebody else":       behindOurBack,
			"who counts standby nodes is told":                       countedStandby,
			"a roll-out goes on beside standby nodes":                rollOut,
			"launches and terminations that succeed in part":         partialLaunch,
			"credentials that have expired":                          expiredCredentials,
			"a subnet without addresses":                             fullSubnet,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, r)
			})
		}
	})
	t.Run("no metric is silent", func(t *testing.T) { noSilentMetric(t, r) })
}
