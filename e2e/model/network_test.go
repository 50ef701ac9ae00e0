package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestFiveLivesOfEachNetwork opens a node five times under each CNI, with and without startup
// taints, graceful node shutdown and boots of minutes: within a second of the network's real signal
// on the played clock, and never by the last resort.
func TestFiveLivesOfEachNetwork(t *testing.T) {
	for _, network := range networks() {
		for _, taints := range []int{0, 4} {
			if taints != 0 && !network.shows() {
				continue
			}
			for mode, bits := range map[string]int{"SelfStop": taints, "ControllerStop": taints | 1} {
				for k := range 4 {
					graceful, slow := k%2 == 1, k > 1
					name := fmt.Sprintf("%s, startup taints %t, graceful %t, slow %t, %s", network.name, taints != 0, graceful, slow,
						mode)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						fiveLives(t, network, graceful, slow, bits)
					})
				}
			}
		}
	}
}

func fiveLives(t *testing.T, network network, graceful, slow bool, bits int) {
	var forced []string
	w := NewWorld(1, func(line string) {
		for _, reason := range []string{"StartupTaintsForced", "NetworkNotReported", "StartFailed", "WarmupFailed",
			"never_"} {
			if strings.Contains(line, reason) {
				forced = append(forced, line)
			}
		}
	})
	w.network, w.graceful, w.slow = network, graceful, slow
	w.createPool([4]int{0, 0, 1, bits})
	if slow {
		w.editPool(0, func(p *v1alpha1.NodePool) {
			p.Spec.PreWarm.Timeout, p.Spec.ScaleUp.ReadyTimeout = seconds(600), seconds(300)
		})
	}
	for life := 1; life <= 5; life++ {
		i := awaitOnly(t, w, v1alpha1.StateStandby)
		w.createPods([4]int{0, 0, 0, 1}, ourScheduler)
		if awaitOnly(t, w, v1alpha1.StateRunning) != i {
			t.Fatalf("life %d: another instance runs", life)
		}
		signal := i.readyAt
		if i.networkAt.After(signal) {
			signal = i.networkAt
		}
		if !network.shows() {
			signal = i.readyAt
		}
		if took := w.now.Sub(signal); took > time.Second || network.agent && !i.network {
			t.Errorf("life %d: opened %s after the signal, network up %t", life, took, i.network)
		}
		w.deletePods([4]int{0, 0, 0, 0})
	}
	if len(forced) > 0 {
		t.Errorf("by the last resort or after a failure:\n%s", strings.Join(forced, "\n"))
	}
	if w.broken != nil {
		t.Error(w.broken)
	}
}

// awaitOnly lets the world go on until the only node of the world is in that state, and returns its
// instance.
func awaitOnly(t *testing.T, w *World, state v1alpha1.NodeState) *instance {
	t.Helper()
	for deadline := w.now.Add(time.Hour); w.now.Before(deadline) && w.broken == nil; {
		w.runUntil(w.now.Add(20 * time.Millisecond))
		if nodes := w.poolNodes(); len(nodes) == 1 && stateOf(nodes[0]) == state {
			return w.machineOf(nodes[0])
		}
	}
	t.Fatalf("no single node is %s within an hour: %v", state, w.broken)
	return nil
}
