package cluster

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAReplicaThatComesLateHasItsTime: its grace on a node that runs begins when it comes.
func TestAReplicaThatComesLateHasItsTime(t *testing.T) {
	c := newCreation(10, 1, 4)
	c.ask()
	c.open("node-0000")
	bound := c.pods[0].DeepCopy()
	bound.Spec.NodeName = "node-0000"
	c.SetPod(bound)
	c.clock = c.clock.Add(creationGap - time.Second)
	if over := c.Overdue(c.clock); len(over) > 0 {
		t.Errorf("%d claims are overdue before their pods exist", len(over))
	}
	c.SetPod(c.pods[1])
	if over := c.Overdue(c.clock); len(over) > 0 {
		t.Errorf("%d claims are overdue as soon as the pod exists", len(over))
	}
	if over := c.Overdue(c.clock.Add(30 * time.Second)); len(over) != 1 || over[0].Pod != c.pods[1].UID {
		t.Errorf("overdue: %v", over)
	}
}

// TestClaimsForReplicasEnd: with what they were made for.
func TestClaimsForReplicasEnd(t *testing.T) {
	starting := func(c *creation) {
		for node := range c.claimedNodes() {
			c.SetNode(poolNode(string(node), v1alpha1.StateStarting))
		}
	}
	for name, k := range map[string]struct {
		then func(*creation)
		// left are the claims for replicas to come that are left of 19, futile whether the owner backs
		// off.
		left   int
		futile bool
	}{
		"nothing happens":   {then: func(*creation) {}, left: 19},
		"it is deleted":     {then: func(c *creation) { c.DeleteOwner(replicaSet("set", 20)) }},
		"it is scaled down": {then: func(c *creation) { c.SetOwner(replicaSet("set", 9)) }, left: 8, futile: true},
		"it is scaled to 0": {then: func(c *creation) { c.SetOwner(replicaSet("set", 0)) }, futile: true},
		"it is scaled up":   {then: func(c *creation) { c.SetOwner(replicaSet("set", 30)) }, left: 19},
		"a pod is refused":  {then: func(c *creation) { c.SetOwner(replicaSet("set", 20, refused)) }, futile: true},
		"a quota appears":   {then: func(c *creation) { c.SetQuota(podQuota(6, 1)) }, left: 5, futile: true},
		"a quota has counted pods that are not seen yet": {
			then: func(c *creation) { c.SetQuota(podQuota(20, 12)) }, left: 19,
		},
		"of another space": {
			then: func(c *creation) { q := podQuota(6, 1); q.Namespace = "o"; c.SetQuota(q) },
			left: 19,
		},
		"a rollout begins": {
			then: func(c *creation) {
				c.SetOwner(replicaSet("set", 20, ofDeployment))
				c.SetOwner(replicaSet("new", 1, ofDeployment))
			},
			futile: true,
		},
		"59 s without a pod": {
			then: func(c *creation) { c.clock = c.clock.Add(59 * time.Second); c.ExpireReplicas(c.clock) },
			left: 19,
		},
		"60 s without a pod": {
			then:   func(c *creation) { c.clock = c.clock.Add(60 * time.Second); c.ExpireReplicas(c.clock) },
			futile: true,
		},
		"a pod of its shape":  {then: func(c *creation) { c.SetPod(c.pods[1]) }, left: 18},
		"its pod is replaced": {then: func(c *creation) { c.DeletePod(c.pods[0]) }, left: 19},
		"a pod that ran somewhere": {then: func(c *creation) {
			p := c.pods[1].DeepCopy()
			p.Spec.NodeName = "elsewhere"
			c.SetPod(p)
		}, left: 18},
		"a pod of another shape": {then: func(c *creation) {
			p := c.pods[1].DeepCopy()
			p.Spec.NodeSelector = map[string]string{"a": "b"}
			c.SetPod(p)
		}},
		"another is of a shape of its own": {then: func(c *creation) {
			c.SetPod(small("other", ownedBy("ReplicaSet", "o"), prio(7)))
		}, left: 19},
		"a node fails": {then: func(c *creation) { c.StartFailed("node-0001") }, left: 15},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCreation(10, 1, 20)
			c.ask()
			starting(c)
			k.then(c)
			if got := c.toCome(); got != k.left {
				t.Errorf("%d claims are left, want %d", got, k.left)
			}
			if got := c.claims.ReplicasBackOff("set", c.clock); got != k.futile {
				t.Errorf("the owner backs off: %t, want %t", got, k.futile)
			}
			named := slices.ContainsFunc(c.ended, func(e ReplicasEnded) bool { return len(e.Nodes) > 0 && e.Owner != nil })
			if named != k.futile {
				t.Errorf("told of %+v, of nodes that started for nothing: %t", c.ended, k.futile)
			}
			if len(c.homeless) > 0 {
				t.Errorf("%v are to be placed anew", c.homeless)
			}
		})
	}
}

func refused(set *appsv1.ReplicaSet) {
	set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure,
		Status: corev1.ConditionTrue}}
}

// TestStandbyNodesAreNoFutileStart: what was not started yet stays off, and nothing is held back.
func TestStandbyNodesAreNoFutileStart(t *testing.T) {
	c := newCreation(10, 1, 20)
	c.ask()
	c.SetOwner(replicaSet("set", 1))
	if c.toCome() != 0 || c.claims.ReplicasBackOff("set", c.clock) {
		t.Errorf("%d claims are left, backs off: %t", c.toCome(), c.claims.ReplicasBackOff("set", c.clock))
	}
}

// TestTheBackoffDoublesAndEnds: each time that nodes start for nothing, and is over once all
// replicas come.
func TestTheBackoffDoublesAndEnds(t *testing.T) {
	c := newCreation(10, 1, 8)
	fail := func() time.Duration {
		t.Helper()
		c.DeletePod(c.pods[0])
		c.SetOwner(replicaSet("set", 8))
		c.SetPod(c.pods[0])
		for node := range c.claimedNodes() {
			c.SetNode(poolNode(string(node), v1alpha1.StateStandby))
		}
		c.ask()
		for node := range c.claimedNodes() {
			c.SetNode(poolNode(string(node), v1alpha1.StateStarting))
		}
		c.ended = nil
		c.SetOwner(replicaSet("set", 1))
		if len(c.ended) != 1 {
			t.Fatalf("told of %+v", c.ended)
		}
		wait := c.ended[0].Until.Sub(c.clock)
		c.clock = c.ended[0].Until
		return wait
	}
	if first, second := fail(), fail(); first != time.Minute || second != 2*time.Minute {
		t.Errorf("backed off for %s and %s, want a minute, then two", first, second)
	}
	c.SetOwner(replicaSet("set", 8))
	c.claims.ReplicasServed("set")
	if wait := fail(); wait != time.Minute {
		t.Errorf("backed off for %s, want a minute: all had come since", wait)
	}
}

// TestWhatIsNotKnownIsLeft: a Node goes on naming slots of which this process cannot say whether
// they are wanted.
func TestWhatIsNotKnownIsLeft(t *testing.T) {
	c := newCreation(2, 0, 4)
	c.SetNode(poolNode("node-0000", v1alpha1.StateStarting, naming("set*0,other*1")))
	for slot, want := range map[types.UID]bool{"set*0": true, "other*1": true} {
		if got := c.IsUnknownPod(slot); got != want {
			t.Errorf("%s is not known: %t, want %t", slot, got, want)
		}
	}
	c.SetOwner(replicaSet("set", 0))
	if c.IsUnknownPod("set*0") {
		t.Error("the owner wants no replicas, and the slot is not known")
	}
	if c.IsBehind("node-0000", "set*0") || !c.IsBehind("node-0001", "set*0") {
		t.Error("the cluster state has shown which Node names the slot")
	}
}

// TestNothingIsLeftOfOwners: nothing stays of owners whose pods and claims are gone.
func TestNothingIsLeftOfOwners(t *testing.T) {
	c := newCreation(10, 3, 12)
	c.ask()
	for _, p := range c.pods[3:] {
		c.SetPod(p)
	}
	for _, p := range c.pods {
		bound := p.DeepCopy()
		bound.Spec.NodeName = "node-0009"
		c.SetPod(bound)
	}
	if o := c.replicas.owners["set"]; o.template != nil || o.count[1] != 12 {
		t.Errorf("template %v, counts %v", o.template, o.count)
	}
	c.DeleteOwner(replicaSet("set", 12))
	for _, p := range c.pods {
		c.DeletePod(p)
	}
	if len(c.replicas.owners)+len(c.replicas.sets)+len(c.replicas.quotas)+len(c.claims.OwnersWithSlots()) > 0 ||
		c.ClaimCount() > 0 {
		t.Errorf("left: %+v, %d claims", c.replicas, c.ClaimCount())
	}
}
