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
