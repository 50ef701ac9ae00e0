package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// TestAPodOfAnotherShapeTakesNoSlot: it was there before the claims were made, and gets room by its
// own question.
func TestAPodOfAnotherShapeTakesNoSlot(t *testing.T) {
	c := newCreation(10, 1, 8)
	odd := c.pods[7].DeepCopy()
	odd.Spec.NodeSelector = map[string]string{"a": "b"}
	odd.CreationTimestamp = metav1.NewTime(epoch().Add(-time.Minute))
	c.SetPod(odd)
	c.ask()
	if n := c.toCome(); n != 6 {
		t.Fatalf("set-up: %d to come", n)
	}
	changed := odd.DeepCopy()
	changed.Labels["seen"] = "again"
	c.SetPod(changed)
	question(c.State, changed, nil)
	if claim, ok := c.ClaimOf(odd.UID); ok || c.toCome() != 6 {
		t.Errorf("%d to come, and it has the claim %+v", c.toCome(), claim)
	}
}

// TestClaimsForReplicasAreAdopted: another replica of Stratos, or the next process, takes over what
// Nodes name by slots: for pods that wait, then for replicas to come, in any order of the events.
func TestClaimsForReplicasAreAdopted(t *testing.T) {
	first := newCreation(10, 1, 12)
	first.ask()
	var nodes []*corev1.Node
	for node := range first.claimedNodes() {
		var names []string
		for _, claim := range first.ClaimsOn(node) {
			names = append(names, string(claim.PublishedAs()))
		}
		nodes = append(nodes, poolNode(string(node), v1alpha1.StateStarting, naming(strings.Join(names, ","))))
	}
	for order, events := range map[string][]string{
		"nodes first":  {"nodes", "owner", "pods"},
		"pods first":   {"pods", "owner", "nodes"},
		"owner last":   {"pods", "nodes", "owner"},
		"owner first":  {"owner", "nodes", "pods"},
		"seen before":  {"owner", "pods", "nodes"},
		"pods in then": {"nodes", "pods", "owner"},
	} {
		t.Run(order, func(t *testing.T) {
			next := newCreation(0, 0, 12)
			next.DeleteOwner(replicaSet("set", 12))
			for _, event := range events {
				switch event {
				case "nodes":
					for _, n := range nodes {
						next.SetNode(n)
					}
				case "owner":
					next.SetOwner(replicaSet("set", 12))
				case "pods":
					for _, p := range first.pods[:3] {
						next.SetPod(p)
					}
				}
			}
			next.candidates = first.candidates
			if next.ClaimCount() != 12 || next.toCome() != 9 {
				t.Errorf("%d claims, %d of them for replicas to come, want 12 and 9:\n%s", next.ClaimCount(), next.toCome(), next.names())
			}
			for _, p := range first.pods[:3] {
				if c, ok := next.ClaimOf(p.UID); !ok || !c.Adopted {
					t.Errorf("the claim of %s is %+v", p.Name, c)
				}
			}
			if next.names() != first.names() {
				t.Errorf("it would name\n%s\nwant\n%s", next.names(), first.names())
			}
		})
	}
}

// TestAPodLeavesItsSlot: where a Node names the pod itself, another replica of Stratos has claimed
// room for it there.
func TestAPodLeavesItsSlot(t *testing.T) {
	c := newCreation(10, 1, 4)
	c.ask()
	c.SetNode(poolNode("node-0000", v1alpha1.StateStarting, naming("pod-0000,set*0,set*1,set*2")))
	c.SetPod(c.pods[1])
	c.SetNode(poolNode("node-0005", v1alpha1.StateStarting, naming("pod-0001")))
	if claim, _ := c.ClaimOf(c.pods[1].UID); claim.Node != "node-0005" || claim.Slot != "" {
		t.Errorf("the claim is %+v", claim)
	}
	if got := c.toCome(); got != 2 {
		t.Errorf("%d claims for replicas to come, want 2", got)
	}
}

// TestAPodThatIsBeingBoundTakesNoSlot: its scheduler was told that a running node takes it, so the
// claim is for a replica that has no such place. It takes one when its scheduler asks again.
func TestAPodThatIsBeingBoundTakesNoSlot(t *testing.T) {
	c := newCreation(10, 2, 8)
	c.open("node-0009")
	bound := c.pods[1]
	if d := question(c.State, bound, c.candidates[9:]); d.Kind != decide.Pass {
		t.Fatalf("set-up: decision %s", d.Kind)
	}
	c.candidates = c.candidates[:9]
	c.ask()
	if n := c.toCome(); n != 6 {
		t.Fatalf("set-up: %d to come", n)
	}
	changed := bound.DeepCopy()
	changed.Labels["seen"] = "again"
	c.SetPod(changed)
	if claim, ok := c.ClaimOf(bound.UID); ok || c.toCome() != 6 {
		t.Errorf("%d to come, and it has the claim %+v", c.toCome(), claim)
	}
	question(c.State, changed, c.candidates)
	if _, ok := c.ClaimOf(bound.UID); !ok || c.toCome() != 5 {
		t.Errorf("asked again: %d to come, it has a claim: %t", c.toCome(), ok)
	}
}
