package view

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Decisions come at any moment. A pod that counted on the node that it was promised and on the one
// that it is bound to cost a start too many; one that counts nowhere has its room promised to
// another.
func TestABoundPodCountsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		bound string
		// counts: the pod counts on its node already when its claim ends.
		counts bool
	}{
		"bound where it was promised: the room is its own all the time":        {"promised", true},
		"bound elsewhere: it is seen there in the moment the promise ends":     {"other", true},
		"bound to a node that is not known yet: the promise ends all the same": {"unknown", false},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetNode(poolNode("promised", v1alpha1.StateStarting))
			v.SetNode(poolNode("other", v1alpha1.StateRunning))
			p := cpuPod("x", "")
			v.SetPod(p)
			claimFor(t, v, l, p, "promised")
			ended := 0
			v.Listen(Listener{Bound: func(claim.Claim, *corev1.Pod) {
				ended++
				used := int64(0)
				for _, n := range lookUp(v, c.bound) {
					used = n.Used.MilliCPU
				}
				if counts := used > 0; counts != c.counts {
					t.Errorf("when the claim ends the pod counts on its node: %t, want %t", counts, c.counts)
				}
				if l.HasClaim("x") {
					t.Error("the claim stands still")
				}
			}})
			v.SetPod(cpuPod("x", c.bound))
			if ended != 1 {
				t.Errorf("told of the end of %d claims, want 1", ended)
			}
			for _, n := range lookUp(v, c.bound) {
				if n.Used.MilliCPU != 1000 {
					t.Errorf("%d m used in the end, want 1000", n.Used.MilliCPU)
				}
			}
		})
	}
}

// In a cluster with many pods most events are of pods that run. They must not wait until a decision
// is made, nor decisions for them.
func TestEventsOfBoundPodsDoNotWaitForDecisions(t *testing.T) {
	v, l := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStarting))
	v.SetNode(poolNode("b", v1alpha1.StateRunning))
	first, second := cpuPod("x", ""), testPod("y", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}}},
			}},
		}
	})
	claimFor(t, v, l, first, "a")
	asked := false
	l.Decide(claim.Ask{Pod: second, Nodes: lookUp(v, "a"), World: func() *fit.World {
		asked = true // the ledger's lock is held here
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.SetPod(cpuPod("z", "b"))
			v.SetPod(cpuPod("z", "b", inPhase(corev1.PodSucceeded)))
			v.DeletePod(cpuPod("z", "b"))
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("an event of a bound pod without a claim waits for a decision")
		}
		return v.World()
	}}, epoch())
	if !asked {
		t.Fatal("set-up: the decision did not look at the world")
	}
}
