package cluster

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// Decisions come at any moment. A pod takes up room once: counted on its claimed node and on the
// one that it is bound to, it costs a start too many. Counted nowhere, its room is claimed for
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
			v.Listen(Listener{PodServed: func(decide.Claim, *corev1.Pod) {
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

// A pod whose room other workloads take is placed anew, as often as that happens: their scheduler
// does not see the claims, and each start was of use to some pod. Pods of DaemonSets that take it
// show that the pod fits our nodes only in our view of them.
func TestAPodWhoseRoomIsTakenIsHeldBackOnlyForDaemonSets(t *testing.T) {
	for name, c := range map[string]struct {
		taker    func(*corev1.Pod)
		heldBack bool
	}{
		"taken by other workloads": {taker: func(*corev1.Pod) {}},
		"taken by pods of a DaemonSet": {heldBack: true, taker: func(p *corev1.Pod) {
			p.OwnerReferences = agentPod("").OwnerReferences
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			waits := cpuPod("x", "")
			v.SetPod(waits)
			for _, node := range []string{"first", "second"} {
				v.SetNode(poolNode(node, v1alpha1.StateStarting))
				claimFor(t, v, l, waits, node)
				v.SetNode(poolNode(node, v1alpha1.StateRunning))
				v.SetPod(cpuPod("taker of "+node, node, c.taker))
				if l.HasClaim("x") {
					t.Fatal("the claim stands although its port is taken")
				}
			}
			if why, _ := v.OwnerBackoff(waits, epoch()); (why != "") != c.heldBack {
				t.Errorf("held back with %q, want that: %v", why, c.heldBack)
			}
		})
	}
}

// In a cluster with many pods most events are of pods that run, and say nothing that a decision
// reads. They must not wait until a decision is made, nor decisions for them.
func TestEventsThatChangeNothingDoNotWaitForDecisions(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("b", v1alpha1.StateRunning))
	v.SetPod(cpuPod("z", "", onItsWay("b")))
	v.SetPod(cpuPod("z", "b"))
	v.mu.Lock() // as a decision does
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.SetPod(cpuPod("z", "b", inPhase(corev1.PodRunning)))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("an event that changes nothing waits for a decision")
	}
	v.mu.Unlock()
}

// What others see of a bound pod is taken in, also where its last event said nothing new.
func TestEventsThatChangeSomethingAreTakenIn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		used   int64
	}{
		"it has ended":    {inPhase(corev1.PodSucceeded), 0},
		"it takes more":   {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") }, 2000},
		"another status":  {func(p *corev1.Pod) { p.Status.HostIP = "10.0.0.1" }, 1000},
		"it is made anew": {func(p *corev1.Pod) { p.Spec.NodeName = "" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			v.SetNode(poolNode("b", v1alpha1.StateRunning))
			for range 2 {
				v.SetPod(cpuPod("z", "b", inPhase(corev1.PodRunning)))
			}
			v.SetPod(cpuPod("z", "b", inPhase(corev1.PodRunning), c.change))
			if used := lookUp(v, "b")[0].Used.MilliCPU; used != c.used {
				t.Errorf("%d m used, want %d", used, c.used)
			}
		})
	}
}

// TestListenersAreToldInOrder: a listener that makes a change itself is called for what follows
// after the others were called for what was before.
func TestListenersAreToldInOrder(t *testing.T) {
	v, l := newTestView()
	for _, name := range []string{"a", "b"} {
		v.SetNode(poolNode(name, v1alpha1.StateStarting))
		v.SetPod(small("on-" + name))
		claimFor(t, v, l, small("on-"+name), name)
	}
	var heard []string
	v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) {
		heard = append(heard, "first of "+string(claims[0].Node))
		v.StartFailed("b")
	}})
	v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) {
		heard = append(heard, "second of "+string(claims[0].Node))
	}})
	v.StartFailed("a")
	if want := []string{"first of a", "second of a", "first of b", "second of b"}; !slices.Equal(heard, want) {
		t.Errorf("told %v, want %v", heard, want)
	}
}
