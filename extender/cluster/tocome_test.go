package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// ownedBy makes the pod one of a controller's.
func ownedBy(kind string, uid types.UID) func(*corev1.Pod) {
	version := map[string]string{"Job": "batch/v1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, UID: uid, Controller: new(true)}}
	}
}

func replicaSet(uid types.UID, count int32, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid},
		Spec: appsv1.ReplicaSetSpec{Replicas: &count}}
	for _, f := range change {
		f(set)
	}
	return set
}

func ofDeployment(set *appsv1.ReplicaSet) {
	set.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", UID: "d", Controller: new(true)}}
}

// creation is a burst of which so many pods exist of more that their ReplicaSet "set" wants. Four
// of them fill a node.
type creation struct {
	*State
	clock      time.Time
	told       *[]*Siblings
	candidates [][]byte
	pods       []*corev1.Pod
	claimed    []ReplicasClaimed
	came       []types.UID
	ended      []ReplicasEnded
	homeless   []types.UID
}

func newCreation(nodes, exist, wanted int, change ...func(*corev1.Pod)) *creation {
	owned := append([]func(*corev1.Pod){ownedBy("ReplicaSet", "set")}, change...)
	c := &creation{clock: epoch(), pods: alike(wanted, owned...)}
	c.State, c.told, c.candidates = burst(nodes)
	c.now = func() time.Time { return c.clock }
	c.Listen(Listener{
		ReplicasClaimed: func(r ReplicasClaimed) { c.claimed = append(c.claimed, r) },
		ReplicaCame:     func(_ decide.Claim, p *corev1.Pod) { c.came = append(c.came, p.UID) },
		ReplicasEnded:   func(r ReplicasEnded) { c.ended = append(c.ended, r) },
		ClaimsLost: func(claims []decide.Claim) {
			for i := range claims {
				c.homeless = append(c.homeless, claims[i].Pod)
			}
		},
	})
	c.SetPool(poolObject("p", 2, func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.Anticipate = v1alpha1.AnticipateReplicas }))
	c.SetOwner(replicaSet("set", int32(wanted))) //nolint:gosec // a small number
	for _, p := range c.pods[:exist] {
		c.SetPod(p)
	}
	return c
}

// ask asks about the first pod, and has claims made for all that are like it.
func (c *creation) ask() decide.Decision {
	d := c.Decide(c.pods[0], c.candidates, &Candidates{}, c.clock)
	for ; len(*c.told) > 0; *c.told = (*c.told)[1:] {
		for more := true; more; {
			_, more = c.PlaceSiblings((*c.told)[0], c.clock)
		}
	}
	return d
}

// claimedNodes are the nodes with claims, and how many are on each.
func (c *creation) claimedNodes() map[v1alpha1.NodeName]int {
	out := map[v1alpha1.NodeName]int{}
	for _, name := range c.candidates {
		if n := len(c.ClaimsOn(v1alpha1.NodeName(name))); n > 0 {
			out[v1alpha1.NodeName(name)] = n
		}
	}
	return out
}

func (c *creation) toCome() int { return c.claims.CountToCome("set") }

// open makes the node run.
func (c *creation) open(name string) { c.SetNode(poolNode(name, v1alpha1.StateRunning)) }

// TestReplicasToComeGetClaims: one question claims all the nodes that the whole burst needs, and
// each pod that is created takes its claim as soon as it is seen.
func TestReplicasToComeGetClaims(t *testing.T) {
	for name, exist := range map[string]int{"one exists": 1, "some exist": 7, "all exist": 20} {
		t.Run(name, func(t *testing.T) {
			c := newCreation(10, exist, 20)
			if d := c.ask(); d.Kind != decide.Started {
				t.Fatalf("set-up: decision %s", d.Kind)
			}
			if len(c.claimedNodes()) != 5 || c.ClaimCount() != 20 || c.toCome() != 20-exist {
				t.Errorf("%d claims on %d nodes, %d for replicas to come; want 20 on 5, %d to come", c.ClaimCount(),
					len(c.claimedNodes()), c.toCome(), 20-exist)
			}
			if exist < 20 && (len(c.claimed) != 1 || c.claimed[0].Claims != 20-exist || c.claimed[0].Owner.GetUID() != "set") {
				t.Errorf("told of %+v", c.claimed)
			}
			names := c.names()
			for i, p := range c.pods[exist:] {
				if i%2 == 0 { // the scheduler's watch is ahead of ours
					if d := question(c.State, p, c.candidates); d.Kind != decide.Waiting {
						t.Errorf("%s: decision %s, want that of a pod with a claim", p.Name, d.Kind)
					}
				}
				c.SetPod(p)
				if _, ok := c.ClaimOf(p.UID); !ok {
					t.Errorf("%s has no claim", p.Name)
				}
			}
			if len(c.claimedNodes()) != 5 || c.ClaimCount() != 20 || c.toCome() != 0 || len(c.came) != 20-exist {
				t.Errorf("in the end %d claims on %d nodes, %d to come, %d came", c.ClaimCount(), len(c.claimedNodes()),
					c.toCome(), len(c.came))
			}
			if now := c.names(); now != names {
				t.Errorf("Nodes would name\n%s\nwhere before they named\n%s", now, names)
			}
			if len(c.ended) > 0 || len(c.homeless) > 0 {
				t.Errorf("ended %+v, homeless %v", c.ended, c.homeless)
			}
		})
	}
}

// names is what the Nodes name.
func (c *creation) names() string {
	var out []string
	for _, name := range c.candidates {
		var of []string
		for _, claim := range c.ClaimsOn(v1alpha1.NodeName(name)) {
			of = append(of, string(claim.PublishedAs()))
		}
		slices.Sort(of)
		out = append(out, string(name)+": "+strings.Join(of, ","))
	}
	return strings.Join(out, "\n")
}

// TestOwnersOfEachKind: replicas of each kind of owner get claims, one after the other where pods
// keep away from each other.
func TestOwnersOfEachKind(t *testing.T) {
	two, five := int32(2), int32(5)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "o", UID: "o"}
	for kind, object := range map[string]client.Object{
		"ReplicaSet": replicaSet("o", five),
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &five,
			PodManagementPolicy: appsv1.ParallelPodManagement}},
		"Job": &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: &five, Completions: &five}},
	} {
		t.Run(kind, func(t *testing.T) {
			c := newCreation(10, 0, int(two), ownedBy(kind, "o"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
			})
			c.SetOwner(object)
			c.SetPod(c.pods[0])
			c.ask()
			if n := len(c.claimedNodes()); n != 5 {
				t.Errorf("%d nodes have a claim, want one for each of 5 pods with a host port", n)
			}
		})
	}
}

// TestNoClaimsForReplicas: where none are to be made ahead, the pod that was asked about has its
// claim alone.
func TestNoClaimsForReplicas(t *testing.T) {
	for name, change := range map[string]func(*creation){
		"the pool anticipates pods": func(c *creation) {
			c.SetPool(poolObject("p", 3, func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.Anticipate = v1alpha1.AnticipatePods }))
		},
		"the pool anticipates nothing": func(c *creation) {
			c.SetPool(poolObject("p", 3, func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.Anticipate = v1alpha1.AnticipateOff }))
		},
		"the owner is gone":        func(c *creation) { c.DeleteOwner(replicaSet("set", 20)) },
		"the owner wants no more":  func(c *creation) { c.SetOwner(replicaSet("set", 1)) },
		"no pod came for a minute": func(c *creation) { c.clock = c.clock.Add(creationGap) },
		"the quota is used up":     func(c *creation) { c.SetQuota(podQuota(1, 1)) },
		"a rollout": func(c *creation) {
			c.SetOwner(replicaSet("set", 20, ofDeployment))
			c.SetOwner(replicaSet("old", 1, ofDeployment))
		},
		"nodes were started for nothing": func(c *creation) { c.claims.FailReplicas("set", c.clock) },
		"the pod has a volume of its own": func(c *creation) {
			c.DeletePod(c.pods[0])
			c.pods[0].Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			c.pods[0].UID = "another"
			c.SetPod(c.pods[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCreation(10, 1, 20)
			change(c)
			if d := c.ask(); d.Kind != decide.Started {
				t.Fatalf("set-up: decision %s", d.Kind)
			}
			if c.ClaimCount() != 1 || len(c.claimed) > 0 {
				t.Errorf("%d claims, told of %+v", c.ClaimCount(), c.claimed)
			}
		})
	}
}

func podQuota(hard, used int64) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}
	q.Spec.Hard = corev1.ResourceList{"pods": *resource.NewQuantity(hard, resource.DecimalSI)}
	q.Status.Used = corev1.ResourceList{"pods": *resource.NewQuantity(used, resource.DecimalSI)}
	return q
}

// TestQuotasAreShared: the owners of a namespace have together what its quota leaves.
func TestQuotasAreShared(t *testing.T) {
	c := newCreation(20, 1, 20)
	elsewhere := func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }
	other := small("other", aged(0), ownedBy("ReplicaSet", "o"), elsewhere)
	c.SetOwner(replicaSet("o", 20))
	c.SetPod(other)
	c.SetQuota(podQuota(12, 2))
	c.ask()
	question(c.State, other, c.candidates)
	placeAll(c.State, c.told)
	if set, o := c.toCome(), c.claims.CountToCome("o"); set != 10 || o != 0 {
		t.Errorf("%d and %d to come, want all 10 that the quota leaves for the first, none for the second", set, o)
	}
	c.SetOwner(replicaSet("set", 7))
	second := small("second", aged(1), ownedBy("ReplicaSet", "o"), elsewhere)
	c.SetPod(second)
	question(c.State, second, c.candidates)
	placeAll(c.State, c.told)
	// The quota has not counted the second pod yet.
	if set, o := c.toCome(), c.claims.CountToCome("o"); set != 6 || o != 3 {
		t.Errorf("%d and %d to come, want 6 and the 3 that are left", set, o)
	}
}

// TestPodsThatExistComeFirst: they take room from replicas to come before a further node starts.
func TestPodsThatExistComeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*corev1.Pod)
		want   decide.Kind
	}{
		"of equal priority":  {nil, decide.Joined},
		"of higher priority": {[]func(*corev1.Pod){prio(1)}, decide.Joined},
		"of lower priority":  {[]func(*corev1.Pod){prio(-1)}, decide.Started},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCreation(10, 1, 8)
			b.ask()
			other := small("other", c.change...)
			b.SetPod(other)
			d := question(b.State, other, b.candidates)
			if d.Kind != c.want {
				t.Errorf("decision %s, want %s", d.Kind, c.want)
			}
			if ended := len(d.Displaced); ended != 8-b.ClaimCount()+1 || len(b.homeless) > 0 {
				t.Errorf("%d claims were released for it, %d claims are left, to be placed anew: %v", ended, b.ClaimCount(), b.homeless)
			}
			if c.want == decide.Joined && d.Claim.Node != "node-0000" && d.Claim.Node != "node-0001" {
				t.Errorf("it got %s", d.Claim.Node)
			}
		})
	}
}

func prio(p int32) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }

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

// TestReplicasToComeHoldNoRunningRoom: once the node runs, pods that exist find all of it.
func TestReplicasToComeHoldNoRunningRoom(t *testing.T) {
	c := newCreation(10, 1, 4)
	c.ask()
	c.open("node-0000")
	other := small("other", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") })
	c.SetPod(other)
	d := question(c.State, other, c.candidates)
	if d.Kind != decide.PassClaimed {
		t.Errorf("decision %s, want room claimed next to the pod that has its claim there", d.Kind)
	}
	bound := other.DeepCopy()
	bound.Spec.NodeName = "node-0000"
	c.SetPod(bound)
	if n := c.toCome(); n != 1 {
		t.Errorf("%d replicas to come have room, want 1: the others' is taken", n)
	}
	if len(c.homeless) > 0 {
		t.Errorf("%v are to be placed anew", c.homeless)
	}
}

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

// TestHoldsForReplicasAreBounded: no question waits for all of a thousand.
func TestHoldsForReplicasAreBounded(t *testing.T) {
	c := newCreation(300, 1, 1000)
	question(c.State, c.pods[0], c.candidates)
	if holds := placeAll(c.State, c.told); holds < 250/placementsAtOnce || c.ClaimCount() != 1000 {
		t.Errorf("%d holds of the lock for %d claims", holds, c.ClaimCount())
	}
}

func BenchmarkReplicasToCome(b *testing.B) {
	for b.Loop() {
		c := newCreation(250, 1, 1000)
		c.ask()
		for _, p := range c.pods[1:] {
			c.SetPod(p)
		}
		if c.toCome() != 0 || c.ClaimCount() != 1000 {
			b.Fatal(fmt.Sprint(c.toCome(), c.ClaimCount()))
		}
	}
}
