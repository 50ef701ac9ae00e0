package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// burst is a cluster state in which the pods wait beside n standby nodes in three zones.
func burst(n int, pods ...*corev1.Pod) (v *State, told *[]*Siblings, candidates [][]byte) {
	v, _ = newTestView()
	told = &[]*Siblings{}
	v.Listen(Listener{SiblingsWait: func(s *Siblings) { *told = append(*told, s) }})
	for i := range n {
		name := fmt.Sprintf("node-%04d", i)
		v.SetNode(poolNode(name, v1alpha1.StateStandby, func(node *corev1.Node) {
			node.Labels[corev1.LabelHostname], node.Labels[corev1.LabelTopologyZone] = name, string(rune('a'+i%3))
		}))
		candidates = append(candidates, []byte(name))
	}
	for _, p := range pods {
		v.SetPod(p)
	}
	return v, told, candidates
}

// alike makes n pods, each a second younger than the one before.
func alike(n int, change ...func(*corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = small(fmt.Sprintf("pod-%04d", i), append([]func(*corev1.Pod){aged(i)}, change...)...)
	}
	return out
}

func aged(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(epoch().Add(time.Duration(seconds) * time.Second))
		p.Labels = map[string]string{"app": "web"}
	}
}

func question(v *State, p *corev1.Pod, candidates [][]byte) decide.Decision {
	return v.Decide(p, candidates, &Candidates{}, epoch())
}

// placeAll places the siblings that were told, and returns how many holds of the lock that took.
func placeAll(v *State, told *[]*Siblings) (holds int) {
	for len(*told) > 0 {
		next := (*told)[0]
		*told = (*told)[1:]
		for more := true; more; holds++ {
			_, more = v.PlaceSiblings(next, epoch())
		}
	}
	return holds
}

// claims are the claimed node of each pod, as text.
func claims(v *State, pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		c, _ := v.ClaimOf(p.UID)
		out = append(out, fmt.Sprintf("%s on %s", p.Name, c.Node))
	}
	return strings.Join(out, "\n")
}

// TestSiblingsGetTheClaimsOfTheirOwnQuestions: after the first question all pods of the shape have
// the claims that they would get if their scheduler asked about each in turn.
func TestSiblingsGetTheClaimsOfTheirOwnQuestions(t *testing.T) {
	term := []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	for name, change := range map[string]func(*corev1.Pod){
		"plain": func(*corev1.Pod) {},
		"a host port": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: term}}
		},
		"affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: term}}
		},
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
				TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: term[0].LabelSelector}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := alike(60, change)
			one, told, candidates := burst(40, pods...)
			question(one, pods[0], candidates)
			placeAll(one, told)
			each, _, _ := burst(40, pods...)
			for _, p := range pods {
				question(each, p, candidates)
			}
			if got, want := claims(one, pods), claims(each, pods); got != want {
				t.Errorf("claims:\n%s\nwant:\n%s", got, want)
			}
			if _, ok := one.ClaimOf(pods[1].UID); !ok && name != "anti-affinity" && one.ClaimCount() < 2 {
				t.Error("no sibling has a claim, so this shows nothing")
			}
		})
	}
}

// TestWhoIsNoSibling: such a pod gets no claim before its own question.
func TestWhoIsNoSibling(t *testing.T) {
	yes := true
	for name, change := range map[string]func(*State, *corev1.Pod){
		"another shape": func(_ *State, p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"a nomination":  func(_ *State, p *corev1.Pod) { p.Status.NominatedNodeName = "node-0009" },
		"gates":         func(_ *State, p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
		"a pod of a DaemonSet": func(_ *State, p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", UID: "d", Controller: &yes}}
		},
		"ignored": func(_ *State, p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
		},
		"deleted": func(v *State, p *corev1.Pod) {
			v.SetPod(p)
			v.DeletePod(p)
		},
		"a label that keeps it from a running pod": func(v *State, p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web", "tier": "db"}
			v.SetPod(small("apart", on("elsewhere"), func(other *corev1.Pod) {
				other.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey:   corev1.LabelHostname,
						LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}}}
			}))
		},
		"of a pool that anticipates nothing": func(v *State, _ *corev1.Pod) {
			v.SetPool(poolObject("p", 2, func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.Anticipate = v1alpha1.AnticipateOff }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := alike(2)
			v, told, candidates := burst(4, pods[0])
			other := alike(2)[1]
			change(v, other)
			if name != "deleted" {
				v.SetPod(other)
			}
			if d := question(v, pods[0], candidates); d.Kind != decide.Started {
				t.Fatalf("set-up: decision %s", d.Kind)
			}
			placeAll(v, told)
			if c, ok := v.ClaimOf(other.UID); ok {
				t.Errorf("it has a claim on %s", c.Node)
			}
		})
	}
}

// TestPodsThatArriveLaterAreSiblingsToo: the scheduler asks about the oldest pod once more before
// it comes to those that have arrived since. They get their claims then, and are looked for once.
func TestPodsThatArriveLaterAreSiblingsToo(t *testing.T) {
	pods := alike(6)
	v, told, candidates := burst(6, pods[:2]...)
	question(v, pods[0], candidates)
	placeAll(v, told)
	if d := question(v, pods[0], candidates); d.Kind != decide.Waiting || len(*told) > 0 {
		t.Fatalf("%s, told %d times although no pod has arrived", d.Kind, len(*told))
	}
	for _, p := range pods[2:] {
		v.SetPod(p)
	}
	for range 2 {
		question(v, pods[0], candidates)
	}
	if len(*told) != 1 {
		t.Errorf("told %d times of four pods that have arrived, want once", len(*told))
	}
	placeAll(v, told)
	for _, p := range pods {
		if _, claimed := v.ClaimOf(p.UID); !claimed {
			t.Errorf("%s has no claim", p.Name)
		}
	}
	v.SetPod(small("other", aged(9), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }))
	question(v, pods[1], candidates)
	if len(*told) > 0 {
		t.Error("told although the pod that has arrived is of another shape")
	}
}

// TestAPodThatIsBeingBoundIsNoSibling: its scheduler was told that a running node takes it. A claim
// for it would start a node for nothing, and push the claims of others there.
func TestAPodThatIsBeingBoundIsNoSibling(t *testing.T) {
	open := [][]byte{[]byte("open")}
	for name, c := range map[string]struct {
		then func(v *State, p *corev1.Pod)
		want bool
	}{
		"it is being bound": {then: func(*State, *corev1.Pod) {}},
		"the bind failed, and it was refused": {want: true, then: func(v *State, p *corev1.Pod) {
			v.DeleteNode("open")
			question(v, p, open)
		}},
		"no event has come for long": {want: true, then: func(v *State, _ *corev1.Pod) {
			v.Forget(epoch().Add(time.Hour))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := alike(2)
			v, told, candidates := burst(4, pods...)
			v.SetNode(poolNode("open", v1alpha1.StateRunning))
			if d := question(v, pods[1], open); d.Kind != decide.Pass {
				t.Fatalf("decision %s", d.Kind)
			}
			c.then(v, pods[1])
			question(v, pods[0], candidates)
			placeAll(v, told)
			if _, ok := v.ClaimOf(pods[1].UID); ok != c.want {
				t.Errorf("it has a claim: %t", ok)
			}
		})
	}
}

// TestJobsAreSiblings: labels that no selector reads tell no pods apart.
func TestJobsAreSiblings(t *testing.T) {
	pods := alike(20)
	for i, p := range pods {
		p.Labels = map[string]string{"job-name": p.Name}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", UID: types.UID(fmt.Sprintf("job-%d", i)),
			Controller: new(true)}}
	}
	v, told, candidates := burst(10, pods...)
	question(v, pods[3], candidates)
	placeAll(v, told)
	if n := v.ClaimCount(); n != len(pods) {
		t.Errorf("%d of %d pods have a claim", n, len(pods))
	}
}

// TestSiblingsAreOldestFirst: where the room does not do for all, the scheduler would have asked
// about the oldest first.
func TestSiblingsAreOldestFirst(t *testing.T) {
	pods := alike(12)
	arrived := slices.Clone(pods)
	slices.Reverse(arrived)
	v, told, candidates := burst(2, arrived...)
	question(v, pods[0], candidates)
	placeAll(v, told)
	for i, p := range pods {
		if _, ok := v.ClaimOf(p.UID); ok != (i < 8) { // 4 cpu hold four pods
			t.Errorf("%s has a claim: %t", p.Name, ok)
		}
	}
}

// TestClaimsMadeAheadAreLeftToWhoIsAsked: another replica names other pods on their node. This one
// places those anew that it was asked about, and leaves the others to that replica.
func TestClaimsMadeAheadAreLeftToWhoIsAsked(t *testing.T) {
	pods := alike(4)
	others := alike(8)[4:]
	v, told, candidates := burst(2, pods...)
	var anew []types.UID
	v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) {
		for i := range claims {
			anew = append(anew, claims[i].Pod)
		}
	}})
	question(v, pods[0], candidates)
	placeAll(v, told)
	question(v, pods[3], candidates)
	for _, p := range others {
		v.SetPod(p)
	}
	v.SetNode(poolNode("node-0000", v1alpha1.StateStarting, naming("pod-0004,pod-0005,pod-0006,pod-0007")))
	slices.Sort(anew)
	if want := []types.UID{"pod-0000", "pod-0003"}; !slices.Equal(anew, want) {
		t.Errorf("%v are placed anew, want %v, which were asked about here", anew, want)
	}
	for i, p := range slices.Concat(pods, others) {
		if _, ok := v.ClaimOf(p.UID); ok != (i >= len(pods)) {
			t.Errorf("%s has a claim: %t", p.Name, ok)
		}
	}
}

// TestSiblingsAreForgotten: nothing stays of pods that are bound or gone.
func TestSiblingsAreForgotten(t *testing.T) {
	pods := alike(6)
	v, _, _ := burst(2, pods...)
	for i, p := range pods {
		if i%2 == 0 {
			v.DeletePod(p)
			continue
		}
		bound := p.DeepCopy()
		bound.Spec.NodeName = "node-0000"
		v.SetPod(bound)
	}
	if len(v.siblings.byShape)+len(v.siblings.shapes) > 0 {
		t.Errorf("%d shapes and %d pods are left", len(v.siblings.byShape), len(v.siblings.shapes))
	}
}

// TestAHoldIsBounded: no question waits for more than so many placements.
func TestAHoldIsBounded(t *testing.T) {
	pods := alike(120, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} })
	v, told, candidates := burst(130, pods...)
	question(v, pods[0], candidates)
	if holds := placeAll(v, told); holds != (len(pods)-1+placementsAtOnce-1)/placementsAtOnce {
		t.Errorf("%d holds of the lock for %d placements", holds, len(pods)-1)
	}
}

// BenchmarkSiblings is the longest time for which the placement of a thousand siblings holds the
// lock.
func BenchmarkSiblings(b *testing.B) {
	for name, change := range map[string]func(*corev1.Pod){
		"plain": func(*corev1.Pod) {},
		"a host port": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		},
	} {
		for _, n := range []int{250, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d nodes", name, n), func(b *testing.B) {
				longest := time.Duration(0)
				for b.Loop() {
					b.StopTimer()
					pods := alike(1000, change)
					v, told, candidates := burst(n, pods...)
					question(v, pods[0], candidates)
					b.StartTimer()
					for more := true; more; {
						began := time.Now()
						_, more = v.PlaceSiblings((*told)[0], epoch())
						longest = max(longest, time.Since(began))
					}
				}
				b.ReportMetric(float64(longest.Microseconds()), "µs-longest-hold")
			})
		}
	}
}
