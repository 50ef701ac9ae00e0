package decide

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

// apartFrom keeps the pod away from pods of the app, by the given topology key.
func apartFrom(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			},
		}}
	}
}

func spreadOver(app, key string, policy corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: policy,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
}

// togetherWith wants the pod to be with pods of the app, by the given topology key.
func togetherWith(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			},
		}}
	}
}

func inZone(zone string) func(*Node) {
	return func(n *Node) {
		n.Labels = map[string]string{corev1.LabelHostname: string(n.Name), corev1.LabelTopologyZone: zone}
	}
}

// holding places a pod that is bound there.
func holding(p *corev1.Pod) func(*Node) {
	return func(n *Node) {
		n.Pods = append(n.Pods, fit.NewPlaced(p))
		n.Used.Add(fit.Occupied(p))
	}
}

// worldOf is the world as the cluster state shows it: a node that neither runs nor starts with the
// taints that stand now.
func worldOf(nodes ...*Node) func() *fit.World {
	return func() *fit.World {
		w := &fit.World{}
		for _, n := range nodes {
			seen := n.Node
			if !n.InService() && n.State != v1alpha1.StateStarting {
				seen.Taints, seen.Unschedulable, seen.WhenRunning = n.CurrentTaints, n.Cordoned, &n.Node
			}
			w.Nodes = append(w.Nodes, &seen)
		}
		return w
	}
}

// TestWaitingPodsKeepTheirDistance: kube-scheduler checks anti-affinity and spread against bound
// pods only. Pods that are pending together, asked about one after the other, have to be kept apart
// here. want is the node that each claims.
func TestWaitingPodsKeepTheirDistance(t *testing.T) {
	host, zone := corev1.LabelHostname, corev1.LabelTopologyZone
	four := func() []*Node {
		return []*Node{standby("a1", inZone("a")), standby("a2", inZone("a")), standby("b1", inZone("b")),
			standby("b2", inZone("b"))}
	}
	web := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, append([]func(*corev1.Pod){labelled("web")}, change...)...)
	}
	for name, c := range map[string]struct {
		nodes []*Node
		pods  []*corev1.Pod
		want  []v1alpha1.NodeName
	}{
		"without a wish they share": {four(), []*corev1.Pod{web("1"), web("2"), web("3")},
			[]v1alpha1.NodeName{"a1", "a1", "a1"}},
		"anti-affinity by node": {
			four(), []*corev1.Pod{web("1", apartFrom("web", host)), web("2", apartFrom("web", host)),
				web("3", apartFrom("web", host))},
			[]v1alpha1.NodeName{"a1", "a2", "b1"},
		},
		"anti-affinity by zone, more pods than zones": {
			four(), []*corev1.Pod{web("1", apartFrom("web", zone)), web("2", apartFrom("web", zone)),
				web("3", apartFrom("web", zone))},
			[]v1alpha1.NodeName{"a1", "b1", ""},
		},
		"the one that waits keeps away those that wish nothing": {
			four(), []*corev1.Pod{pod("1", apartFrom("web", host)), web("2")}, []v1alpha1.NodeName{"a1", "a2"},
		},
		"of another app it keeps nobody away": {
			four(), []*corev1.Pod{pod("1", apartFrom("web", host)), pod("2", labelled("db"))}, []v1alpha1.NodeName{"a1", "a1"},
		},
		"spread over zones": {
			four(), []*corev1.Pod{
				web("1", spreadOver("web", zone, corev1.DoNotSchedule)), web("2", spreadOver("web", zone, corev1.DoNotSchedule)),
				web("3", spreadOver("web", zone, corev1.DoNotSchedule)), web("4", spreadOver("web", zone, corev1.DoNotSchedule)),
			},
			[]v1alpha1.NodeName{"a1", "b1", "a1", "b1"},
		},
		"a spread that only advises": {
			four(), []*corev1.Pod{web("1", spreadOver("web", zone, corev1.ScheduleAnyway)),
				web("2", spreadOver("web", zone, corev1.ScheduleAnyway))},
			[]v1alpha1.NodeName{"a1", "a1"},
		},
		"spread over waiting pods and those that run": {
			[]*Node{running("r", inZone("a"), cordoned, holding(pod("old", labelled("web")))), standby("a1", inZone("a")),
				standby("b1", inZone("b"))},
			[]*corev1.Pod{
				web("1", spreadOver("web", zone, corev1.DoNotSchedule)), web("2", spreadOver("web", zone, corev1.DoNotSchedule)),
				web("3", spreadOver("web", zone, corev1.DoNotSchedule)),
			},
			// In-tree both standby nodes may be candidates of each pod: this checks pending pods together
			// with running ones.
			[]v1alpha1.NodeName{"a1", "b1", "b1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			for i, p := range c.pods {
				a := ask(p, c.nodes...)
				a.World = worldOf(c.nodes...)
				d := l.Decide(a, epoch())
				claimOn(t, l, p.Name, c.want[i])
				if c.want[i] == "" && len(d.Refused) == 0 {
					t.Errorf("pod %s waits without a reason", p.Name)
				}
				if again := l.Decide(a, epoch()); startedBy(again) != "" {
					t.Errorf("pod %s starts %s at its second ask", p.Name, startedBy(again))
				}
			}
		})
	}
}

// TestClaimedPartnersDecide: kube-scheduler takes each pod of a group for its first until one of
// them is bound, and offers all nodes.
func TestClaimedPartnersDecide(t *testing.T) {
	host, zone := corev1.LabelHostname, corev1.LabelTopologyZone
	web := func(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, append([]func(*corev1.Pod){labelled("web"), asking("cpu", cpu)}, change...)...)
	}
	standing := []*Node{standby("1a", inZone("a")), standby("2b", inZone("b")), standby("3a", inZone("a")),
		standby("4b", inZone("b"))}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		// open is a running node with room, which is there for the last pod.
		open *Node
		want []v1alpha1.NodeName
	}{
		"by zone": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", zone)), web("2", "3", togetherWith("web", zone)),
				web("3", "3", togetherWith("web", zone))},
			nil, []v1alpha1.NodeName{"1a", "3a", ""},
		},
		"by host": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", host)), web("2", "1", togetherWith("web", host)),
				web("3", "1", togetherWith("web", host))},
			nil, []v1alpha1.NodeName{"1a", "1a", ""},
		},
		"a partner that wishes nothing": {
			[]*corev1.Pod{web("1", "3"), pod("2", asking("cpu", "3"), togetherWith("web", zone))}, nil,
			[]v1alpha1.NodeName{"1a", "3a"},
		},
		"claims of others decide nothing": {
			[]*corev1.Pod{pod("1", asking("cpu", "3")), web("2", "3", togetherWith("web", zone))}, nil,
			[]v1alpha1.NodeName{"1a", "2b"},
		},
		"a running node without a partner": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", zone)), web("2", "3", togetherWith("web", zone))},
			running("r", inZone("b")), []v1alpha1.NodeName{"1a", "3a"},
		},
		"a running node of the cluster without a partner": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", zone)), web("2", "3", togetherWith("web", zone))},
			foreign("r", inZone("b")), []v1alpha1.NodeName{"1a", "3a"},
		},
		"a running node with a partner": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", zone)), web("2", "3", togetherWith("web", zone))},
			running("r", inZone("b"), holding(pod("old", labelled("web")))), []v1alpha1.NodeName{"1a", ""},
		},
		"a running node where a partner's node is": {
			[]*corev1.Pod{web("1", "3", togetherWith("web", zone)), web("2", "3", togetherWith("web", zone))},
			running("r", inZone("a")), []v1alpha1.NodeName{"1a", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, nodes := NewClaims(), slices.Clone(standing)
			for i, p := range c.pods {
				if i == len(c.pods)-1 && c.open != nil {
					nodes = append(nodes, c.open)
				}
				a := ask(p, slices.Clone(nodes)...)
				a.World = worldOf(nodes...)
				d := l.Decide(a, epoch())
				claimOn(t, l, p.Name, c.want[i])
				if passes := d.Kind == Pass; passes != (c.want[i] == "" && c.open != nil) {
					t.Errorf("pod %s: verdict %s, nodes %v", p.Name, d.Kind, d.Nodes)
				}
			}
		})
	}
}

// TestASpreadThatHonoursTaintsSeesTheNodeAsItWillRun: no watch shows the start of a node yet, so
// that its taints stand and it is no domain. For pending pods it is one once a pod has a claim
// there.
func TestASpreadThatHonoursTaintsSeesTheNodeAsItWillRun(t *testing.T) {
	honour := func(name string) *corev1.Pod {
		p := pod(name, labelled("web"), spreadOver("web", corev1.LabelHostname, corev1.DoNotSchedule))
		p.Spec.TopologySpreadConstraints[0].NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
		return p
	}
	full := running("full", using("cpu", "4"))
	for name, c := range map[string]struct {
		nodes []*Node
		want  []v1alpha1.NodeName
	}{
		"the only domain": {[]*Node{standby("a", stopped), standby("b", stopped)}, []v1alpha1.NodeName{"a", "a", "a"}},
		"beside an empty domain without room": {
			[]*Node{full, standby("a", stopped), standby("b", stopped), standby("c", stopped)},
			[]v1alpha1.NodeName{"a", "b", "c"},
		},
		"more pods than nodes": {[]*Node{full, standby("a", stopped), standby("b", stopped)},
			[]v1alpha1.NodeName{"a", "b", ""}},
		"a node that is taken back": {[]*Node{full, draining("a", stopped), standby("b", stopped)},
			[]v1alpha1.NodeName{"a", "b", ""}},
		"a node that starts, as before": {[]*Node{full, starting("a", stopped), standby("b", stopped)},
			[]v1alpha1.NodeName{"a", "b", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			for i, want := range c.want {
				p := honour(fmt.Sprint(i))
				a := ask(p, slices.DeleteFunc(slices.Clone(c.nodes), (*Node).InService)...)
				a.World = worldOf(c.nodes...)
				l.Decide(a, epoch())
				claimOn(t, l, p.Name, want)
			}
		})
	}
}

// TestANodeWhoseStartIsAskedIsADomain: the pod that it was started for is gone. It runs all the
// same, as the domain without pods of its zone.
func TestANodeWhoseStartIsAskedIsADomain(t *testing.T) {
	zone := corev1.LabelTopologyZone
	nodes := []*Node{
		running("r", inZone("a"), using("cpu", "4"), holding(pod("old", labelled("web")))),
		standby("small", inZone("b"), stopped, offering("cpu", "1", "pods", "110")),
		standby("large", inZone("a"), stopped, offering("cpu", "8", "pods", "110")),
	}
	l := NewClaims()
	claimed(t, l, nodes[1:], pod("gone"), pod("other", asking("cpu", "3")))
	claimOn(t, l, "gone", "small")
	l.Release("gone", "", epoch())
	p := pod("web", labelled("web"), asking("cpu", "2"), spreadOver("web", zone, corev1.DoNotSchedule))
	p.Spec.TopologySpreadConstraints[0].NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
	a := ask(p, nodes[1:]...)
	a.World = worldOf(nodes...)
	if d := l.Decide(a, epoch()); d.Claim != nil {
		t.Errorf("the pod has a claim on %s, the second of zone a, while zone b has none", d.Claim.Node)
	}
}

// TestANominatedPodCountsOnceForSpread: the cluster state counts it on its node, and its claim
// stands still.
func TestANominatedPodCountsOnceForSpread(t *testing.T) {
	l := NewClaims()
	web := func(name string) *corev1.Pod {
		return pod(name, labelled("web"), spreadOver("web", corev1.LabelTopologyZone, corev1.DoNotSchedule))
	}
	a, b := standby("a", inZone("a")), running("b", inZone("b"), holding(pod("old", labelled("web"))), using("cpu", "4"))
	first := ask(web("1"), a)
	first.World = worldOf(a, b)
	l.Decide(first, epoch())
	claimOn(t, l, "1", "a")
	is := running("a", inZone("a"), holding(web("1")))
	l.ObserveNode("a", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	l.SetNominated("1", "a")
	second := ask(web("2"), is)
	second.World = worldOf(is, b)
	if d := l.Decide(second, epoch()); d.Kind != PassClaimed {
		t.Errorf("verdict %s: %q; one pod in each zone, so the next may go to either", d.Kind, d.Refused)
	}
}

func TestARefusalAmongWaitingPodsSaysSo(t *testing.T) {
	l, n := NewClaims(), standby("c")
	first := ask(pod("1", labelled("web"), apartFrom("web", corev1.LabelHostname)), n)
	second := ask(pod("2", labelled("web"), apartFrom("web", corev1.LabelHostname)), n)
	first.World, second.World = worldOf(n), worldOf(n)
	l.Decide(first, epoch())
	d := l.Decide(second, epoch())
	const want = "among the pending pods: node(s) didn't match pod anti-affinity rules"
	if d.Refused["c"] != want {
		t.Errorf("node c %q; want %q", d.Refused["c"], want)
	}
	l.Release("1", "", epoch())
	if d := l.Decide(second, epoch()); d.Kind != Joined {
		t.Errorf("verdict %s after the other pod is gone, want %s", d.Kind, Joined)
	}
}

// The world is only made where some pod's wish makes it matter: it is a walk over all nodes.
func TestTheWorldIsNotAskedForWithoutNeed(t *testing.T) {
	for name, c := range map[string]struct {
		first, second *corev1.Pod
		asked         bool
	}{
		"nobody wishes anything": {pod("1"), pod("2"), false},
		"the pod wishes company": {pod("1"), pod("2", togetherWith("web", corev1.LabelHostname)), true},
		"the company of others is theirs": {pod("1", labelled("web"), togetherWith("web", corev1.LabelHostname)), pod("2"),
			false},
		"the pod wishes":          {pod("1"), pod("2", apartFrom("web", corev1.LabelHostname)), true},
		"a pod that waits wishes": {pod("1", apartFrom("web", corev1.LabelHostname)), pod("2"), true},
		"the spread of others is theirs": {pod("1", spreadOver("web", corev1.LabelHostname, corev1.DoNotSchedule)), pod("2"),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			l, asked := NewClaims(), false
			nodes := []*Node{standby("c"), standby("d")}
			claimed(t, l, nodes, c.first)
			a := ask(c.second, nodes...)
			a.World = func() *fit.World { asked = true; return worldOf(nodes...)() }
			l.Decide(a, epoch())
			if asked != c.asked {
				t.Errorf("asked %v, want %v", asked, c.asked)
			}
		})
	}
}
